/* SPDX-License-Identifier: Apache-2.0
 * search.h - finds and stores the best variant of every layer of one or more models.
 *
 * Layers are collected first (equal ones once, whatever model they come from), then searched layer by layer,
 * those with the largest share of the time first.  With a budget, every layer has two candidates measured
 * (one when the budget is tight) before any has more; what is left goes where it promises to save most
 * (turns.c). Every layer is published as soon as it is measured: an interrupted or killed search loses at
 * most one chunk.
 */
#ifndef MO_SEARCH_H
#define MO_SEARCH_H
#include "codegen/search/harness.h"
#include "codegen/tune/stress.h"
#include "variants/store_format.h"

enum mo_layer_state {
    MO_LAYER_PENDING,  /* not reached within the budget */
    MO_LAYER_REUSED,   /* was in the store already */
    MO_LAYER_COMPILED, /* a variant was stored */
    MO_LAYER_GENERIC,  /* no candidate is faster than the generic kernel, or there is none (`tried` is 0) */
    MO_LAYER_FAILED,   /* no candidate compiles and computes right, alone and in the model: the generic
                          kernel serves */
};

struct mo_layer_result {
    const char *signature;
    char name[64]; /* of the first layer of the models that has it; plain text */
    enum mo_layer_state state;
    int uses; /* layers of the models that share it */
    int64_t flops, source_bytes;
    int tried, rejected;
    double min_ns, generic_ns; /* 0: not known */
    char family[32], knobs[MO_STORE_KNOBS];
    char trouble[200]; /* the first rejection, or why a model withdrew its kernel; "" when none */
    char refused[160]; /* why the versions that were measured are not kept; "": they are */
    int versions;      /* kept for pressure or more cores; 0: none but the best */
    bool other_number; /* the store has versions, chosen for another number than is asked for */
    /* Of the variant that options.cores run fastest: its units and the time of the busiest core, as
     * timed alone; 0: not known. */
    int64_t units;
    double part_ns;
};

/* Packed weights that the caches do not keep cost more than a layer's own time, which hides reading them:
 * what other cores and models lack of the memory's rate meanwhile.  The usual price of a byte is what one
 * core takes to read it. */
#define MO_BYTE_NS 0.036

/* After a turn of a layer. */
struct mo_search_progress {
    int done, total; /* turns */
    double left_s;   /* to the end, with what mo_search_reserve() was told of; below 0: not known yet */
    const struct mo_layer_result *layer;
};

struct mo_search_options {
    const char *store; /* folder; created when missing */
    const char *cc;    /* compiler; NULL = the usual ones */
    enum mo_isa isa;
    int jobs;             /* compilers at a time; 0 = 1 */
    double budget_s;      /* 0 = no limit; compilers and trials that run when it ends are stopped */
    int64_t budget_began; /* 0 = with mo_search_create() */
    int points;           /* most candidates a layer; 0 = 8 */
    double probation_s;   /* time in which the candidates of one turn of a layer must compute right; 0 = 60 */
    double byte_ns;       /* time that a byte of packed weights is worth; 0 = none */
    bool refine;          /* go on with layers that the store already has */
    /* Versions for several levels of pressure (codegen/tune/front.h): one turn of more candidates that
     * differ in blocking, order and algorithm; a layer is done when its front, chosen for this number or the
     * same for this number, is in the store. */
    int versions;             /* most a layer; 0 or 1 = the fastest only */
    bool keep_covered;        /* also those that others cover here: for machines with other caches */
    struct mo_stress *stress; /* the neighbour to measure them under; needed for versions */
    double qos_ns;            /* target of the model; 0 = a layer may take twice its best time */
    /* That a layer may get; 0 = 1.  When the fastest variant cannot feed them, a second is kept that can
     * (layer_versions.c). */
    int cores;
    enum mo_units units; /* whether there is a matrix unit, whose layers need no other kernel */
    /* the generator: mo_emit_families() and mo_problem_from_node, or a test's own */
    const struct mo_emit_family *const *families;
    bool (*problem)(const struct mo_graph *graph, const struct mo_node *node, enum mo_isa isa,
                    struct mo_problem *out);
    /* before the first turn: layers to be searched, and how many of these the store has with versions for
     * another number; may be NULL */
    void (*began)(void *ctx, int pending, int other_number);
    const _Atomic int *interrupted; /* set it to end soon with MOIRE_EINTERRUPTED; may be NULL */
    void (*progress)(void *ctx,
                     const struct mo_search_progress *progress); /* after every turn; may be NULL */
    void *ctx;
};

struct mo_search;
int mo_search_create(const struct mo_env *env, const struct mo_search_options *options,
                     struct mo_search **out, moire_error *err);
void mo_search_destroy(struct mo_search *search);
/* Adds the layers of a graph whose layouts are final; the graph may be destroyed afterwards. */
int mo_search_add(struct mo_search *search, const struct mo_graph *graph, moire_error *err);
/* MOIRE_OK also when the budget ran out or single layers failed: see the results. */
int mo_search_run(struct mo_search *search, moire_error *err);
/* What the caller does afterwards takes so many seconds for each second in which the models were loaded, and
 * so many for each second that their layers are predicted to run: half the budget at most is kept for it. */
void mo_search_reserve(struct mo_search *search, double loading_s, double runs);
/* Whether the budget ended the search. */
bool mo_search_ended(const struct mo_search *search);
int mo_search_count(const struct mo_search *search);
/* Layers that were added and are no part of the search, since a matrix unit runs them (options.units). */
int mo_search_on_unit(const struct mo_search *search);
const struct mo_layer_result *mo_search_result(const struct mo_search *search, int index);
/* Notes in the results that the kernel of a layer was taken out of the store (mo_writer_withdraw). */
void mo_search_withdraw(struct mo_search *search, const char *signature, const char *why);
#endif
