/* SPDX-License-Identifier: Apache-2.0
 * frames.h - moire.Frames: windows over the frames of clips.
 *
 * x [clips * frames, C, H, W] are images, the frames of a clip one after the other.  Output image o of a clip
 * is made of its frames o * stride + k * dilation - pad, for k = 0 .. kernel - 1:
 *   MO_FRAMES_GATHER  one behind the other as channels, each padded with zeros to `channels` of them; a frame
 *                     that does not exist is zero.  [clips * out, kernel * channels, H, W]
 *   MO_FRAMES_MAX     the largest of those that exist.  [clips * out, C, H, W], like
 *   MO_FRAMES_MEAN    their mean.
 * `pad` may be negative: the first frames are left out.
 * So a convolution over three dimensions is one over the images that gathering makes.  Only passes make the
 * operator (codegen/passes/pass_images.c).  Attribute `window` has the numbers of struct mo_clip_window in
 * their order. */
#ifndef MO_FRAMES_H
#define MO_FRAMES_H
#include "runtime/graph/graph.h"

enum mo_frames_mode { MO_FRAMES_GATHER, MO_FRAMES_MAX, MO_FRAMES_MEAN, MO_FRAMES_MODES };
enum { MO_FRAMES_NUMBERS = 8 };

struct mo_clip_window {
    int64_t mode; /* enum mo_frames_mode */
    int64_t frames, kernel, stride, dilation, pad, out;
    int64_t channels; /* of a gathered frame, C or more */
};

/* The node's window; false when it does not fit images of shape x.  Of a maximum or mean every output has a
 * frame that exists. */
bool mo_frames_of(const struct mo_node *node, const struct mo_shape *x, struct mo_clip_window *out);
bool mo_frames_fit(const struct mo_clip_window *f, const struct mo_shape *x);
/* The frame of tap k of output o, -1 when there is none. */
int64_t mo_frames_source(const struct mo_clip_window *f, int64_t o, int64_t k);
/* What the images become. */
struct mo_shape mo_frames_shape(const struct mo_clip_window *f, const struct mo_shape *x);
#endif
