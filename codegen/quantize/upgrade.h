/* SPDX-License-Identifier: Apache-2.0
 * upgrade.h - brings a model to version 13 of ONNX's operators, the first one that dequantizes by channel. */
#ifndef MO_QUANTIZE_UPGRADE_H
#define MO_QUANTIZE_UPGRADE_H
#include "codegen/quantize/onnx_edit.h"

enum { MO_QUANTIZE_OPSET = 13 };

/* Nothing for models of that version or a later one.  `shapes` is the model as imported: it tells ranks.
 * MOIRE_EUNSUPPORTED: a version below 7, or a node with a body; the message says what to do. */
int mo_upgrade(struct mo_edit *e, const struct mo_graph *shapes);
#endif
