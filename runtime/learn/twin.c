/* SPDX-License-Identifier: Apache-2.0
 * twin.c - see twin.h. */
#include "runtime/learn/twin.h"

#include <string.h>

struct mo_learn_options mo_learn_options(int n_state, double soft, double rate) {
    return (struct mo_learn_options){.n_state = n_state,
                                     .hidden = 256,
                                     .batch = 256,
                                     .room = 100000,
                                     .gamma = 0.99,
                                     .soft = soft,
                                     .rate = rate};
}

bool mo_learn_options_valid(const struct mo_learn_options *o) {
    return o->n_state >= 1 && o->n_state <= MO_NET_WIDTH && o->hidden >= 1 && o->hidden <= MO_NET_WIDTH &&
           o->batch >= 1 && o->batch <= 1 << 16 && o->room >= 1 && o->room <= 1 << 24 && o->gamma >= 0 &&
           o->gamma < 1 && o->soft > 0 && o->soft <= 1 && o->rate > 0 && o->rate < 1;
}

bool mo_twin_make(struct mo_region *region, const int *size, int batch, struct mo_twin *out) {
    bool ok = true;
    for (int v = 0; ok && v < 2; v++)
        ok = mo_net_make(region, size, &out->critic[v]) && mo_net_make(region, size, &out->target[v]) &&
             mo_adam_make(region, out->critic[v].n, &out->adam[v]) &&
             mo_pass_make(region, &out->critic[v], batch, &out->pass[v]);
    return ok;
}

void mo_twin_draw(struct mo_twin *twin, uint64_t *rng) {
    for (int v = 0; v < 2; v++) {
        mo_net_draw(&twin->critic[v], rng);
        mo_net_copy(&twin->target[v], &twin->critic[v]);
    }
}

double mo_twin_slope(struct mo_twin *twin, int critic, const struct mo_twin_batch *b, float *slope) {
    const struct mo_net *net = &twin->critic[critic];
    const int outputs = net->size[MO_NET_LAYERS];
    struct mo_pass *pass = &twin->pass[critic];
    const float *q = mo_net_forward(b->sgemm, net, b->rows, b->width, b->n, pass);
    float *by_q = mo_pass_slope(pass);
    double loss = 0;
    memset(by_q, 0, (size_t)b->n * (size_t)outputs * sizeof *by_q);
    for (int i = 0; i < b->n; i++, q += outputs, by_q += outputs) {
        const float *row = b->rows + (size_t)i * (size_t)b->width;
        const int output = b->output_at < 0 ? 0 : (int)row[b->output_at];
        const double off = (double)q[output] - b->goal[i];
        loss += off * off / 2;
        by_q[output] = (float)(off / b->n);
    }
    mo_net_backward(b->sgemm, net, b->rows, b->width, pass, slope, NULL);
    return loss / b->n;
}

void mo_twin_step(struct mo_twin *twin, const struct mo_twin_batch *batch, double rate, float *slope,
                  double *loss) {
    for (int v = 0; v < 2; v++) {
        loss[v] = mo_twin_slope(twin, v, batch, slope);
        mo_adam_step(&twin->adam[v], twin->critic[v].values, slope, rate);
    }
}

void mo_twin_follow(struct mo_twin *twin, double part) {
    for (int v = 0; v < 2; v++)
        mo_net_follow(&twin->target[v], &twin->critic[v], part);
}
