"""The wait of equal ranks for the slowest of them, relative to the single device that was measured or predicted.

Published runs of one example on 1 and on 8 GPUs of a node differ by more than the exchange of gradients. If
the host decodes images, the lost time per image is about the same in single and in mixed precision (on V100
within 11 % for three of five models, on A100 up to twice as long in mixed). Its share therefore grows as the
step gets shorter. It does not depend on images per second (from 1,400 to 16,700 on eight GPUs), so it is not
a limit of the input pipeline's rate. Equal GPUs differ by 8 % on average under their power limit (Sinha et
al. 2022). The tables do not show how much of the wait comes from that, and how much from eight processes on
the host.
"""

from __future__ import annotations

import re

from skyline.plan.constant import IMAGE_MIXED, IMAGE_WAITING, WAITING
from skyline.plan.strategy import Precision

_DECODERS = re.compile(
    r"\b(?:ImageFolder|ImageNet|Image\.open|cv2\.imread|cv2\.imdecode|read_image|decode_image|decode_jpeg|nvidia\.dali)\b"
)


def waiting_share(precision: Precision, *, images: bool) -> float:
    """The wait as a share of the computation of one device."""
    if not images:
        return WAITING.value
    return IMAGE_WAITING.value * (1.0 if precision is Precision.SINGLE else IMAGE_MIXED.value)


def decodes_images(source: str) -> bool:
    """True if the source of a script reads image files on the host."""
    return _DECODERS.search(source) is not None
