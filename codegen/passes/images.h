/* SPDX-License-Identifier: Apache-2.0
 * images.h - what the parts of the pass over images share: which tensors are seen as images, and how.
 *
 * [N,C,L] is the images [N,C,1,L]; [N,C,D,H,W] is D images for each clip, [N*D,C,H,W]. */
#ifndef MO_IMAGES_H
#define MO_IMAGES_H
#include "codegen/passes/passes.h"

struct mo_images {
    struct mo_graph *g;
    int *image; /* of every tensor: the one that holds the same as images, or -1 */
    bool *owed; /* of every tensor: its producer writes images, and nobody has needed itself so far */
    int *chain, *chain_end; /* of every node: nodes [chain, chain_end) come right before it, in their order */
    moire_error *err;
};

/* A variable that can be seen as images. */
bool mo_has_images(const struct mo_graph *g, int id);
/* Shape of these images. */
struct mo_shape mo_shape_of_images(const struct mo_shape *s);
/* Input k is read as images from now on. */
int mo_read_images(struct mo_images *w, struct mo_node *node, int k);
/* A new tensor for the images of output 0, which the caller has written; <0: an error. */
int mo_new_images(struct mo_images *w, const struct mo_node *node);

/* image_windows.c: convolutions and pools that can work on images, and make them do so. */
bool mo_takes_window(const struct mo_images *w, const struct mo_node *node);
int mo_lift_window(struct mo_images *w, struct mo_node *node);
#endif
