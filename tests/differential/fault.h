/* SPDX-License-Identifier: Apache-2.0
 * fault.h - deliberate faults, the canaries of the differential tester: each is what a wrong kernel, a wrong
 * binder or a wrong memory plan does to a layer.  The net must find every one of them. */
#ifndef MO_DT_FAULT_H
#define MO_DT_FAULT_H
#include "variants/kernel.h"

/* A layer about to run. */
struct dt_layer {
    const struct mo_graph *graph;
    const struct mo_step *step;
    struct mo_kargs args; /* what the kernel will see */
    int64_t units;
};

struct dt_fault {
    const char *name, *what;
    /* False: the layer has not what the fault needs. */
    bool (*before)(struct dt_layer *layer);
    bool (*after)(struct dt_layer *layer); /* the outputs are there; either may be NULL */
};
extern const struct dt_fault dt_faults[]; /* closed by an empty row */
#endif
