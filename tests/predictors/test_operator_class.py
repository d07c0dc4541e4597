import pytest

from skyline_predictors.operator_class import OperatorClass, operator_class


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("aten::mm", OperatorClass.MATRIX),
        ("aten::addmm", OperatorClass.MATRIX),
        ("aten::bmm", OperatorClass.MATRIX),
        ("aten::convolution", OperatorClass.CONVOLUTION),
        ("aten::convolution_backward", OperatorClass.CONVOLUTION),
        ("aten::_scaled_dot_product_flash_attention", OperatorClass.ATTENTION),
        ("aten::native_layer_norm_backward", OperatorClass.NORMALIZATION),
        ("aten::native_batch_norm", OperatorClass.NORMALIZATION),
        ("aten::_log_softmax", OperatorClass.SOFTMAX),
        ("aten::_foreach_addcdiv_", OperatorClass.OPTIMIZER),
        ("aten::_fused_adamw_", OperatorClass.OPTIMIZER),
        ("aten::embedding", OperatorClass.EMBEDDING),
        ("aten::embedding_dense_backward", OperatorClass.EMBEDDING),
        ("aten::sum", OperatorClass.REDUCTION),
        ("aten::max_pool2d_with_indices", OperatorClass.REDUCTION),
        ("aten::copy_", OperatorClass.COPY),
        ("Memcpy HtoD", OperatorClass.HOST_COPY),
        ("aten::_cudnn_rnn", OperatorClass.RECURRENT),
        ("aten::gelu", OperatorClass.ELEMENTWISE),
        ("aten::upsample_bilinear2d", OperatorClass.ELEMENTWISE),
        ("aten::normal_", OperatorClass.ELEMENTWISE),
        ("aten::maximum", OperatorClass.ELEMENTWISE),
        ("mylib::something", OperatorClass.ELEMENTWISE),
    ],
)
def test_class_of_an_operator(operator, kind):
    assert operator_class(operator) is kind
