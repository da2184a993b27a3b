/* SPDX-License-Identifier: Apache-2.0
 * kernel.c - kernels: the plugin's probe, functions of host objects, work of the fake libraries; graphs. */
#include "tests/fake/cuda/driver/state.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/fake/cuda/image.h"

enum { PROBE_ARGUMENTS = 1 };

/* --- libraries ------------------------------------------------------------------------------------------ */

/* The object in an image; NULL for what is no image. */
static void *open_image(const char *code) {
    char file[MO_FAKE_FILE];
    if (!mo_fake_unpack(code, file)) return NULL;
    void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    unlink(file);
    return object;
}

unsigned cuLibraryLoadData(mo_cu_library *out, const void *code, unsigned *jit, void **jit_values,
                           unsigned n_jit, unsigned *options, void **values, unsigned n) {
    (void)jit, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n;
    const unsigned r = enter("cuLibraryLoadData", current_gpu());
    if (r) return r;
    void *object = NULL;
    if (strncmp(code, MO_FAKE_IMAGE, strlen(MO_FAKE_IMAGE)) == 0) {
        if (!(object = open_image(code))) return leave(INVALID_PTX);
    } else if (!strstr(code, ".entry mo_probe(")) {
        return leave(INVALID_PTX);
    }
    struct CUlib_st *l = make(sizeof *l);
    l->object = object;
    l->next = fake.libraries;
    fake.libraries = l;
    fake.counts.libraries++;
    *out = l;
    return leave(OK);
}

unsigned cuLibraryUnload(mo_cu_library l) {
    const unsigned r = enter("cuLibraryUnload", NULL);
    if (r) return r;
    settle(NULL);
    struct CUlib_st **at = &fake.libraries;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    while (l->kernels) {
        struct CUkern_st *gone = l->kernels;
        l->kernels = gone->next;
        free(gone);
    }
    if (l->object) dlclose(l->object);
    free(l);
    fake.counts.libraries--;
    return leave(OK);
}

/* Fills in the function and the number of its arguments. */
static bool find_kernel(const struct CUlib_st *l, struct CUkern_st *k) {
    if (!l->object) {
        k->n_arguments = PROBE_ARGUMENTS;
        return strcmp(k->name, "mo_probe") == 0;
    }
    char count[80];
    snprintf(count, sizeof count, "%s_arguments", k->name);
    void *f = dlsym(l->object, k->name);
    const int *n = dlsym(l->object, count);
    if (!f || !n || *n < 0 || (size_t)*n > ARGUMENTS_BYTES / sizeof(void *)) return false;
    memcpy(&k->fn, &f, sizeof f);
    k->n_arguments = *n;
    return true;
}

unsigned cuLibraryGetKernel(mo_cu_kernel *out, mo_cu_library l, const char *name) {
    const unsigned r = enter("cuLibraryGetKernel", NULL);
    if (r) return r;
    for (struct CUkern_st *k = l->kernels; k; k = k->next)
        if (strcmp(k->name, name) == 0) {
            *out = k;
            return leave(OK);
        }
    struct CUkern_st *k = make(sizeof *k);
    snprintf(k->name, sizeof k->name, "%s", name);
    if (!find_kernel(l, k)) {
        free(k);
        return leave(NOT_FOUND);
    }
    k->next = l->kernels;
    l->kernels = k;
    *out = k;
    return leave(OK);
}

/* --- launches ------------------------------------------------------------------------------------------- */

int64_t kernel_ns(const struct CUctx_st *c, const unsigned grid[3]) {
    const int64_t blocks = (int64_t)grid[0] * grid[1] * grid[2];
    return fake.config.launch_ns + (blocks + c->n_sms - 1) / c->n_sms * fake.config.block_ns;
}

/* mo_probe: a word for each SM, set for those of the context. */
static void probe(const struct item *item) {
    uint32_t *seen = item->call.arguments[0];
    for (int sm = 0; sm < MO_FAKE_SM_WORDS * 64; sm++)
        if (item->context->sms.w[sm / 64] >> (sm % 64) & 1) seen[sm] = 1;
}

static void run_kernel(struct item *item) {
    const struct kernel_call *call = &item->call;
    if (!call->kernel->fn) {
        probe(item);
        return;
    }
    void *at[ARGUMENTS_BYTES / sizeof(void *)]; /* arguments are passed by where they lie */
    for (int i = 0; i < call->kernel->n_arguments; i++)
        at[i] = (void *)(uintptr_t)&call->arguments[i];
    call->kernel->fn(at, call->grid, call->block);
}

/* The real driver loads a function when it first runs, and cannot while a stream is captured. */
static bool is_loaded(const struct CUstream_st *s, unsigned *ran) {
    const unsigned bit = 1u << s->context->gpu->index;
    if (!s->capturing) *ran |= bit;
    return (*ran & bit) != 0;
}

unsigned cuLaunchKernel(mo_cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, mo_cu_stream s, void **arguments,
                        void **extra) {
    const unsigned r = enter("cuLaunchKernel", s->context->gpu);
    if (r) return r;
    struct CUkern_st *k = (struct CUkern_st *)(void *)f;
    const uint64_t threads = (uint64_t)block_x * block_y * block_z;
    if (!k || extra || !grid_x || !grid_y || !grid_z || !threads || threads > 1024 || shared > 232448)
        return leave(INVALID_VALUE);
    if (!current() || current()->gpu != s->context->gpu) return leave(INVALID_CONTEXT);
    if (!is_loaded(s, &k->ran)) return leave(CAPTURE_UNSUPPORTED);
    struct item item = {.context = s->context, .what = k->name, .fn = run_kernel, .kernel = true};
    item.call = (struct kernel_call){
        .kernel = k, .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}};
    for (int i = 0; i < k->n_arguments; i++)
        memcpy(&item.call.arguments[i], arguments[i], sizeof(void *));
    item.ns = kernel_ns(s->context, item.call.grid);
    return leave(push(s, &item));
}

static void run_launched(struct item *item) {
    item->launched(item->args);
}

/* The same for functions of libraries, whose names begin with "cu" and are constants. */
static bool is_launched(const struct CUstream_st *s, const char *name) {
    const char **list = s->context->gpu->launched;
    int i = 0;
    if (strncmp(name, "cu", 2) != 0) return true;
    while (i < LAUNCHED && list[i] && strcmp(list[i], name) != 0)
        i++;
    if (i == LAUNCHED) abort();
    if (!s->capturing) list[i] = name;
    return list[i] != NULL;
}

__attribute__((visibility("default"))) unsigned mo_fake_launch(void *stream, const char *name,
                                                               void (*fn)(void *args), const void *args,
                                                               size_t bytes, double sm_ns) {
    struct CUstream_st *s = stream;
    const unsigned r = enter("mo_fake_launch", s->context->gpu);
    if (r) return r;
    if (bytes > ARGUMENTS_BYTES) return leave(INVALID_VALUE);
    if (!is_launched(s, name)) return leave(CAPTURE_UNSUPPORTED);
    struct item item = {
        .context = s->context, .what = name, .fn = run_launched, .launched = fn, .kernel = true};
    memcpy(item.args, args, bytes);
    item.ns = fake.config.launch_ns + (int64_t)(sm_ns / s->context->n_sms);
    return leave(push(s, &item));
}

static void call_host(struct item *item) {
    item->launched(item->to);
}

unsigned cuLaunchHostFunc(mo_cu_stream s, void (*fn)(void *ctx), void *ctx) {
    const unsigned r = enter("cuLaunchHostFunc", s->context->gpu);
    if (r) return r;
    const struct item item = {
        .context = s->context, .what = "host function", .fn = call_host, .launched = fn, .to = ctx};
    return leave(fn ? push(s, &item) : INVALID_VALUE);
}

/* --- graphs --------------------------------------------------------------------------------------------- */

unsigned cuStreamBeginCapture_v2(mo_cu_stream s, unsigned mode) {
    const unsigned r = enter("cuStreamBeginCapture_v2", s->context->gpu);
    if (r) return r;
    if (s->capturing || mode > 2) return leave(INVALID_VALUE);
    s->capturing = make(sizeof *s->capturing);
    s->capturing->next = fake.graphs;
    fake.graphs = s->capturing;
    fake.counts.graphs++;
    return leave(OK);
}

unsigned cuStreamEndCapture(mo_cu_stream s, mo_cu_graph *out) {
    const unsigned r = enter("cuStreamEndCapture", s->context->gpu);
    if (r) return r;
    if (!s->capturing) return leave(INVALID_VALUE);
    *out = s->capturing;
    s->capturing = NULL;
    return leave(OK);
}

unsigned cuGraphInstantiateWithFlags(mo_cu_graph_exec *out, mo_cu_graph graph, unsigned long long flags) {
    const unsigned r = enter("cuGraphInstantiateWithFlags", current_gpu());
    if (r) return r;
    if (!graph || flags) return leave(INVALID_VALUE);
    struct CUgraphExec_st *g = make(sizeof *g);
    struct item **at = &g->first;
    for (const struct item *node = graph->first; node; node = node->next) {
        *at = make(sizeof **at);
        **at = *node;
        (*at)->next = NULL;
        at = &(*at)->next;
    }
    g->next = fake.graph_execs;
    fake.graph_execs = g;
    fake.counts.graph_execs++;
    *out = g;
    return leave(OK);
}

unsigned cuGraphUpload(mo_cu_graph_exec graph, mo_cu_stream s) {
    const unsigned r = enter("cuGraphUpload", s->context->gpu);
    return r ? r : leave(graph ? OK : INVALID_VALUE);
}

unsigned cuGraphLaunch(mo_cu_graph_exec graph, mo_cu_stream s) {
    const unsigned r = enter("cuGraphLaunch", s->context->gpu);
    if (r) return r;
    const struct item item = {.context = s->context, .what = "graph", .graph = graph};
    return leave(graph ? push(s, &item) : INVALID_VALUE);
}

unsigned cuGraphDestroy(mo_cu_graph graph) {
    const unsigned r = enter("cuGraphDestroy", current_gpu());
    if (r) return r;
    struct CUgraph_st **at = &fake.graphs;
    while (*at != graph)
        at = &(*at)->next;
    *at = graph->next;
    free_items(graph->first);
    free(graph);
    fake.counts.graphs--;
    return leave(OK);
}

unsigned cuGraphExecDestroy(mo_cu_graph_exec graph) {
    const unsigned r = enter("cuGraphExecDestroy", current_gpu());
    if (r) return r;
    for (const struct CUstream_st *s = fake.streams; s; s = s->next) {
        if (s->doing && s->doing->graph == graph && !s->context->gpu->poison)
            mistake("a graph ended while it ran");
        for (const struct item *i = s->first; i; i = i->next)
            if (i->graph == graph) mistake("a graph ended while it was queued");
    }
    struct CUgraphExec_st **at = &fake.graph_execs;
    while (*at != graph)
        at = &(*at)->next;
    *at = graph->next;
    free_items(graph->first);
    free(graph);
    fake.counts.graph_execs--;
    return leave(OK);
}
