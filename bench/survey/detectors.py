# SPDX-License-Identifier: Apache-2.0
"""Torchvision's detectors, for export.py: what they make of a picture is boxes, as many as there are.

Weights are random.  The last layers of the heads get wider ones than at birth, with which all scores would be the
same.  Boxes come by score, so where two scores are nearly the same their order is a matter of rounding: only so many
of the first are kept as differ by more.  RetinaNet and FCOS are not here: with random weights their scores are so near
each other that rounding is more than a thousandth of their range.  Before opset 16 RoiAlign takes its points as
torchvision does, whose exporter does not say so of later ones."""
import torch
import torchvision
from torch import nn

APART, LEAST = 5e-4, 3


class Found(nn.Module):
    """Of the first picture, what was found in it: boxes, scores, labels, and what else the network tells of each box."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return tuple(self.inner(list(x))[0].values())

    def fit(self, x):
        """Keeps the boxes up to the first two scores that are too near each other."""
        part = self.inner if hasattr(self.inner, "detections_per_img") else self.inner.roi_heads
        score = self.inner(list(x))[0]["scores"]
        near = ((score[:-1] - score[1:]) < APART).nonzero()
        part.detections_per_img = int(near[0]) if len(near) else len(score)
        if part.detections_per_img < LEAST:
            raise ValueError(f"only {part.detections_per_img} boxes differ in score")


def spread(layer, std):
    nn.init.normal_(layer.weight, std=std)
    if layer.bias is not None:
        nn.init.normal_(layer.bias, std=1)


def one_stage(name, side, std, most=50):
    """All boxes of all places at once, the best kept."""
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=21)
    head = model.head.classification_head
    for layer in [m for m in head.modules() if isinstance(m, nn.Conv2d)]:
        spread(layer, std)
    model.detections_per_img, model.score_thresh = most, 0.3
    return Found(model), (torch.rand(1, 3, side, side),)


def two_stages(name, side, std=0.05, most=20):
    """Places where something may be, then what it is."""
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=21, min_size=side,
                                         max_size=side, rpn_post_nms_top_n_test=100, box_detections_per_img=most,
                                         **({"num_keypoints": 17} if "keypoint" in name else {}))
    spread(model.rpn.head.cls_logits, std)
    spread(model.rpn.head.bbox_pred, std / 10)
    spread(model.roi_heads.box_predictor.cls_score, std)
    return Found(model), (torch.rand(1, 3, side, side),)


NETWORKS = {
    "ssdlite320": lambda: one_stage("ssdlite320_mobilenet_v3_large", 320, 0.02),
    "ssd300_vgg16": lambda: one_stage("ssd300_vgg16", 300, 0.002),
    "fasterrcnn_mobilenet_320": lambda: two_stages("fasterrcnn_mobilenet_v3_large_320_fpn", 320),
    "fasterrcnn_r50": lambda: two_stages("fasterrcnn_resnet50_fpn", 320),
    "fasterrcnn_r50_v2": lambda: two_stages("fasterrcnn_resnet50_fpn_v2", 320),
    "maskrcnn_r50": lambda: two_stages("maskrcnn_resnet50_fpn", 320),
    "keypointrcnn_r50": lambda: two_stages("keypointrcnn_resnet50_fpn", 320),
}
FIXED = set(NETWORKS)
OPSETS = {name: 15 for name in NETWORKS}
