/* SPDX-License-Identifier: Apache-2.0
 * dense.h - a stack of dense layers with ReLU between them (none behind the last): forward and backward over
 * a batch of rows, and how its values follow a slope (Adam) or another net's (soft updates).
 *
 * All values of a net are one array, layer by layer: W [in][out], then b [out]; y = x W + b.  A slope (the
 * gradient of a loss) is an array of the same form.  Nothing here allocates but mo_net_make() and
 * mo_pass_make(), from a region of the caller's. */
#ifndef MO_DENSE_H
#define MO_DENSE_H
#include "runtime/learn/sgemm.h"

enum { MO_NET_LAYERS = 3, MO_NET_WIDTH = 4096 };

struct mo_net {
    int size[MO_NET_LAYERS + 1]; /* inputs, two hidden layers, outputs; each 1..MO_NET_WIDTH */
    size_t n;                    /* values */
    float *values;
};

/* Outputs of each layer for a batch of rows: what a backward pass needs of the forward one. */
struct mo_pass {
    int rows;                    /* of the batch, at most those it was made for */
    float *out[MO_NET_LAYERS];   /* [rows][size[l + 1]] */
    float *slope[MO_NET_LAYERS]; /* of the loss by each of them */
};

/* Adam (Kingma and Ba 2015) with its usual constants: decay 0.9 and 0.999, epsilon 1e-8. */
struct mo_adam {
    size_t n;
    float *mean, *square; /* running, of the slope and of its square */
    int64_t steps;
};

/* How many values a net of these sizes has. */
size_t mo_net_values(const int size[MO_NET_LAYERS + 1]);
/* Sizes must be in their range.  Values are zeros.  MOIRE_ENOMEM: false. */
bool mo_net_make(struct mo_region *region, const int size[MO_NET_LAYERS + 1], struct mo_net *out);
/* Every value of a layer evenly from +-1/sqrt(inputs of the layer). */
void mo_net_draw(struct mo_net *net, uint64_t *rng);
void mo_net_copy(struct mo_net *to, const struct mo_net *from); /* of equal sizes */
/* to = part x from + (1 - part) x to: InSS Algorithm 1, lines 19 and 24. */
void mo_net_follow(struct mo_net *to, const struct mo_net *from, double part);

bool mo_pass_make(struct mo_region *region, const struct mo_net *net, int rows, struct mo_pass *out);
/* x: rows of net->size[0] floats, ldx apart.  Returns the outputs in `pass`, [rows][size of last layer]. */
float *mo_net_forward(const struct mo_sgemm *sgemm, const struct mo_net *net, const float *x, int ldx,
                      int rows, struct mo_pass *pass);
/* Where the slope of the loss by those outputs goes, [rows][outputs], before mo_net_backward(). */
float *mo_pass_slope(struct mo_pass *pass);
/* After mo_net_forward() with the same x.  values (NULL: not wanted) gets the slope by the net's values;
 * x_slope (NULL: not wanted) that by x, rows of size[0] floats, one after the other. */
void mo_net_backward(const struct mo_sgemm *sgemm, const struct mo_net *net, const float *x, int ldx,
                     struct mo_pass *pass, float *values, float *x_slope);

bool mo_adam_make(struct mo_region *region, size_t n, struct mo_adam *out);
/* One step down the slope. */
void mo_adam_step(struct mo_adam *adam, float *values, const float *slope, double rate);
#endif
