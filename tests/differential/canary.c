/* SPDX-License-Identifier: Apache-2.0
 * canary.c - plants every fault in random graphs until one gives it away; see canary.h. */
#include "tests/differential/canary.h"

#include <stdio.h>
#include <string.h>
#include "codegen/family/family.h"
#include "tests/differential/onnx_write.h"

/* In the C of a family: what is replaced by what. */
static const struct text_fault {
    const char *name, *from, *to;
} text_faults[] = {
    {"in-image", "image * a->in_image[0]", "image * 0"},
    {"out-image", "image * a->out_image[0]", "image * 0"},
    {"bias", "a->bias + first * 64", "a->bias + 0"},
    {"last-unit", "u < end; u++", "u < end - 1; u++"},
};

/* Whether the family has the text. */
static bool applies(const char *family, const struct text_fault *fault) {
    bool walks = strcmp(family, "winograd") && strcmp(family, "strassen");
    return strcmp(fault->name, "bias") || walks;
}

/* A random graph as a case; false: it is refused. */
static bool open_case(const struct dt_net *net, uint64_t seed, struct mo_graph **g, struct dt_case *c) {
    moire_error err;
    size_t n;
    *g = dt_make(net->env, seed);
    struct dt_part part = {.g = *g, .n_outputs = (*g)->n_outputs, .outputs = (*g)->outputs};
    if ((*g)->n_outputs) {
        const uint8_t *bytes = dt_write_onnx(&part, (*g)->region, &n);
        if (!dt_case_open(net->env, bytes, n, seed, NULL, c, &err)) return true;
    }
    mo_graph_destroy(*g);
    return false;
}

static bool detects(struct dt_net *net, uint64_t seed, int graphs, const struct dt_fault *fault,
                    const char *family, const struct text_fault *text) {
    const char *name = fault ? fault->name : text->name;
    int met = 0, found_at = 0, i = 0;
    for (; i < graphs && !found_at; i++) {
        struct mo_graph *g;
        struct dt_case c;
        int hits = 0;
        if (!open_case(net, seed + (uint64_t)i, &g, &c)) continue;
        bool found = fault ? dt_net_fault(&c, mo_isa_detect(), fault, &hits)
                           : dt_net_text_fault(net, &c, mo_isa_detect(), family, text->from, text->to, &hits);
        met += hits > 0;
        if (found) found_at = met;
        dt_case_close(&c);
        mo_graph_destroy(g);
    }
    if (found_at)
        printf("canary %s %s: found in graph %d of those that have it (seed %llu)\n",
               fault ? "built-in" : family, name, found_at, (unsigned long long)seed + (uint64_t)i - 1);
    else
        printf("canary %s %s: NOT FOUND in %d graphs, %d of which have it, from seed %llu\n",
               fault ? "built-in" : family, name, i, met, (unsigned long long)seed);
    return found_at > 0;
}

int dt_canaries(struct dt_net *net, uint64_t seed, int graphs, bool emitted) {
    int missed = 0;
    for (const struct dt_fault *f = dt_faults; f->name; f++)
        missed += !detects(net, seed, graphs, f, NULL, NULL);
    for (const struct mo_emit_family *const *f = mo_emit_families(); emitted && *f; f++)
        for (size_t i = 0; i < sizeof text_faults / sizeof *text_faults; i++)
            if (applies((*f)->name, &text_faults[i]))
                missed += !detects(net, seed, graphs, NULL, (*f)->name, &text_faults[i]);
    return missed;
}
