/* SPDX-License-Identifier: Apache-2.0
 * place.h - where a running block is, as one number: the layers that are done, and the part that is done of
 * the next one.  Half of layer 3 is 3.5; times follow from the prefix sums of a profile. */
#ifndef MO_PLACE_H
#define MO_PLACE_H
#include "runtime/profile/profile.h"

/* Prefix sums of layer times at one core count: before layer i they are sum[i * stride]. */
struct mo_layer_sums {
    const int64_t *sum;
    int stride;
};

static inline struct mo_layer_sums mo_layer_sums(const struct mo_profile *p, int cores) {
    return (struct mo_layer_sums){mo_profile_row(p, cores), 1};
}
/* In the versions for a pressure, where the profile has any. */
static inline struct mo_layer_sums mo_layer_sums_at(const struct mo_profile *p, double pressure, int cores) {
    if (!p->level) return mo_layer_sums(p, cores);
    return (struct mo_layer_sums){&mo_profile_level(p, mo_profile_level_of(pressure), cores)->solo,
                                  (int)(sizeof(struct mo_profile_does) / sizeof(int64_t))};
}
static inline double mo_layers_time(const struct mo_layer_sums *s, int begin, int end) {
    return (double)(s->sum[end * s->stride] - s->sum[begin * s->stride]);
}
/* From a place to the end of a layer before `end`, or of that one. */
static inline double mo_place_left(const struct mo_layer_sums *s, double at, int end) {
    int layer = (int)at;
    if (layer >= end) return 0;
    return (1 - (at - layer)) * mo_layers_time(s, layer, layer + 1) + mo_layers_time(s, layer + 1, end);
}
/* The place after `done` ns more, at most `end`. */
static inline double mo_place_after(const struct mo_layer_sums *s, double at, int end, double done) {
    int first = (int)at, lo = first, hi = end; /* lo: the last layer before which all is done */
    if (lo >= end) return end;
    done += (at - lo) * mo_layers_time(s, lo, lo + 1);
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (mo_layers_time(s, first, mid) <= done)
            lo = mid;
        else
            hi = mid - 1;
    }
    if (lo >= end) return end;
    return lo + (done - mo_layers_time(s, first, lo)) / mo_layers_time(s, lo, lo + 1);
}
#endif
