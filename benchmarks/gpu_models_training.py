"""A training of one published model on random data: ``gpu_models_training.py MODEL BATCH [--format F]``.

Image models come from timm, language models from transformers, with random weights. It shares no code with Skyline.
"""

import argparse

import torch

LANGUAGE = {
    # name: (config class, model class, length, changes of the configuration)
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", 512, {}),
    "gpt2_medium": ("GPT2Config", "GPT2LMHeadModel", 512, {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    "bert_base": ("BertConfig", "BertForMaskedLM", 128, {}),
    "bert_large": (
        "BertConfig",
        "BertForMaskedLM",
        512,
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    ),
    "llama_160m": (
        "LlamaConfig",
        "LlamaForCausalLM",
        1024,
        {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    ),
    "t5_small": ("T5Config", "T5ForConditionalGeneration", 256, {"decoder_start_token_id": 0}),
}
FORMATS = ("float32", "tf32", "amp", "bf16")
CLASSES = 1000


def build(name, batch_size, form, channels_last, device):
    """The model, and a function that returns the loss of a batch."""
    torch.manual_seed(0)
    dtype = {"amp": torch.float16, "bf16": torch.bfloat16}.get(form)
    if form == "tf32":
        torch.set_float32_matmul_precision("high")
    if name in LANGUAGE:
        import transformers

        config_name, model_name, length, changes = LANGUAGE[name]
        model = getattr(transformers, model_name)(getattr(transformers, config_name)(**changes)).to(device)
        tokens = torch.randint(0, 5000, (batch_size, length), device=device)

        def loss_of():
            with torch.autocast(device.type, dtype, enabled=dtype is not None):
                return model(input_ids=tokens, labels=tokens).loss

    else:
        import timm

        model = timm.create_model(name, num_classes=CLASSES).to(device)
        side = model.default_cfg["input_size"][-1]
        images = torch.randn(batch_size, 3, side, side, device=device)
        labels = torch.randint(0, CLASSES, (batch_size,), device=device)
        if channels_last:
            model = model.to(memory_format=torch.channels_last)
            images = images.contiguous(memory_format=torch.channels_last)

        def loss_of():
            with torch.autocast(device.type, dtype, enabled=dtype is not None):
                return torch.nn.functional.cross_entropy(model(images), labels)

    model.train()
    return model, loss_of


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("--format", choices=FORMATS, default="float32")
    parser.add_argument("--channels-last", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda")
    model, loss_of = build(args.model, args.batch, args.format, args.channels_last, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=args.format == "amp")
    while True:
        loss = loss_of()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
