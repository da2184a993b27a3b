/* SPDX-License-Identifier: Apache-2.0
 * omit.c - one model of one node, with every subset of its operands left out; see omit.h. */
#include "tests/conformance/omit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "onnx.pb-c.h"
#include "tests/unit/codegen/used_memory.h"
#include "tools/moire/verify/ways.h"

enum { PORTS = MO_DATASET_PORTS, MOST_BITS = 12, WHAT = 120 };
static const double RTOL = 1e-3, ATOL = 1e-6;

/* How an operand is left out. */
enum form {
    EMPTY, /* its name is empty */
    SHORT, /* the same, and lists end before their last empty names */
    UNREAD /* outputs only: it has its name, but the graph does not give it */
};

struct omit {
    const struct mo_env *env;
    const struct mo_dataset *data;
    const struct omit_log *log;
    Onnx__ModelProto *model;
    Onnx__NodeProto *node;
    const char *may_in, *may_out;   /* ONNX's letters */
    Onnx__NodeProto as_is;          /* the node's lists before they are changed */
    size_t n_graph_out;             /* of the model as it is, */
    Onnx__ValueInfoProto **all_out; /* and which */
    moire_tensor full[PORTS];       /* what all outputs are with the inputs of the moment */
    char *what;                     /* room for WHAT bytes: the subset in words */
    moire_error *err;
};

/* protobuf-c's messages, from memory that is zeroed whoever writes it. */
static void *zeroed(void *self, size_t n) {
    (void)self;
    return calloc(1, n ? n : 1);
}

static void release(void *self, void *p) {
    (void)self;
    free(p);
}

static ProtobufCAllocator allocator(void) {
    return (ProtobufCAllocator){.alloc = zeroed, .free = release};
}

static Onnx__ModelProto *unpack(const void *bytes, size_t n) {
    ProtobufCAllocator a = allocator();
    return onnx__model_proto__unpack(&a, n, bytes);
}

static void free_model(Onnx__ModelProto *model) {
    ProtobufCAllocator a = allocator();
    if (model) onnx__model_proto__free_unpacked(model, &a);
}

bool omit_only_node(const void *bytes, size_t n, char *op, size_t cap) {
    Onnx__ModelProto *model = unpack(bytes, n);
    bool one = model && model->graph && model->graph->n_node == 1 && model->graph->node[0]->op_type;
    if (one) snprintf(op, cap, "%s", model->graph->node[0]->op_type);
    free_model(model);
    return one;
}

/* --- a changed model --- */

/* The list without the names in the mask; how many of it are left. */
static size_t leave_out(char **list, size_t n, char *const *from, unsigned mask, enum form form) {
    static char empty[] = "";
    for (size_t k = 0; k < n; k++)
        list[k] = mask >> k & 1 ? empty : from[k];
    while (form == SHORT && n && (mask >> (n - 1) & 1))
        n--;
    return n;
}

static bool is_masked_output(const struct omit *o, const char *name, unsigned mask) {
    for (size_t k = 0; k < o->as_is.n_output; k++)
        if ((mask >> k & 1) && !strcmp(o->as_is.output[k], name)) return true;
    return false;
}

/* Packs the model with these operands left out; kept[] are the graph outputs that it still has. */
static uint8_t *change(const struct omit *o, unsigned in, unsigned out, enum form form, size_t *n, int *kept,
                       int *n_kept) {
    char *inputs[32], *outputs[32];
    Onnx__ValueInfoProto *given[PORTS];
    Onnx__GraphProto *graph = o->model->graph;
    o->node->input = inputs;
    o->node->output = outputs;
    o->node->n_input = leave_out(inputs, o->as_is.n_input, o->as_is.input, in, form);
    o->node->n_output =
        leave_out(outputs, o->as_is.n_output, o->as_is.output, form == UNREAD ? 0 : out, form);
    *n_kept = 0;
    for (size_t i = 0; i < o->n_graph_out; i++) {
        if (is_masked_output(o, o->all_out[i]->name, out)) continue;
        given[*n_kept] = o->all_out[i];
        kept[(*n_kept)++] = (int)i;
    }
    graph->output = given;
    graph->n_output = (size_t)*n_kept;
    *n = onnx__model_proto__get_packed_size(o->model);
    uint8_t *bytes = calloc(1, *n + 1);
    if (bytes) onnx__model_proto__pack(o->model, bytes);
    graph->output = o->all_out;
    graph->n_output = o->n_graph_out;
    o->node->input = o->as_is.input;
    o->node->output = o->as_is.output;
    o->node->n_input = o->as_is.n_input;
    o->node->n_output = o->as_is.n_output;
    return bytes;
}

/* --- running it --- */
static int load(const struct omit *o, const uint8_t *bytes, size_t n, bool passes, struct mo_graph **g,
                moire_error *err) {
    struct mo_frontend_options options = {.shapes = o->data->shape, .no_passes = !passes, .bundles = true};
    options.n_shapes = o->data->n_in && o->data->shape[0].input ? o->data->n_in : 0;
    return mo_frontend_parse(o->env, bytes, n, NULL, &options, g, err);
}

static int run(const struct omit *o, const uint8_t *bytes, size_t n, bool planned, moire_tensor *out,
               int *n_out, moire_error *err) {
    const struct mo_plan_options generic = {.isa = mo_isa_detect()};
    struct mo_graph *g;
    memset(out, 0, PORTS * sizeof *out);
    int rc = load(o, bytes, n, planned, &g, err);
    if (rc) return rc;
    *n_out = g->n_outputs;
    if (!planned) {
        rc = mo_way_run_reference(g, o->data->in, o->data->n_in, out, err);
        mo_graph_destroy(g);
        return rc;
    }
    return run_graph_in_used_memory(g, &generic, o->data->in, o->data->n_in, out, err);
}

static int differs(const moire_tensor *want, const moire_tensor *got, int i, moire_error *err) {
    struct mo_difference d;
    if (mo_tensors_agree(want, got, RTOL, ATOL, &d)) return MOIRE_OK;
    if (d.shape) return mo_fail(err, MOIRE_EFAILED, "graph output %d: %s", i, d.shape);
    return mo_fail(err, MOIRE_EFAILED, "graph output %d: %lld elements differ, first at %lld: %.9g, not %.9g",
                   i, (long long)d.n_bad, (long long)d.first_bad, d.got, d.want);
}

static const char *describe(const struct omit *o, unsigned in, unsigned out, enum form form) {
    static const char *const forms[] = {"left empty", "lists cut short", "unread"};
    snprintf(o->what, WHAT, "%s without inputs 0x%x and outputs 0x%x, %s", o->node->op_type, in, out,
             forms[form]);
    return o->what;
}

/* A model by ONNX: both ways give what the node gives with all its outputs. */
static int must_answer(const struct omit *o, unsigned in, unsigned out, enum form form) {
    moire_tensor got[PORTS];
    int kept[PORTS], n_kept, n_got = 0, rc = MOIRE_OK;
    size_t n;
    uint8_t *bytes = change(o, in, out, form, &n, kept, &n_kept);
    if (!bytes) return mo_fail(o->err, MOIRE_ENOMEM, "out of memory");
    for (int planned = 0; planned < 2 && !rc; planned++) {
        rc = run(o, bytes, n, planned, got, &n_got, o->err);
        for (int i = 0; i < n_kept && !rc; i++)
            rc = differs(&o->full[kept[i]], &got[i], i, o->err);
        mo_way_free(o->env, got, n_got);
        if (rc)
            mo_fail_context(o->err, rc, "%s, %s", describe(o, in, out, form), planned ? "plan" : "reference");
    }
    free(bytes);
    o->log->counts->answered++;
    return rc;
}

/* No model by ONNX: refused by an error that names the operator and says which operand. */
static int must_refuse(const struct omit *o, unsigned in, unsigned out, enum form form) {
    struct mo_graph *g;
    moire_error err = {0};
    int kept[PORTS], n_kept;
    size_t n;
    char type[80];
    uint8_t *bytes = change(o, in, out, form, &n, kept, &n_kept);
    if (!bytes) return mo_fail(o->err, MOIRE_ENOMEM, "out of memory");
    int rc = load(o, bytes, n, true, &g, &err);
    free(bytes);
    if (!rc) mo_graph_destroy(g);
    snprintf(type, sizeof type, "(%s)", o->node->op_type);
    o->log->counts->refused++;
    if (!rc) return mo_fail(o->err, MOIRE_EFAILED, "%s is no model, but loads", describe(o, in, out, form));
    const bool says = strstr(err.message, "is required") ||
                      strstr(err.message, "inputs, the operator takes") ||
                      strstr(err.message, "outputs, the operator gives");
    if (rc == MOIRE_EFORMAT && says && strstr(err.message, type)) return MOIRE_OK;
    return mo_fail(o->err, MOIRE_EFAILED, "%s is refused by '%.300s' (%d)", describe(o, in, out, form),
                   err.message, rc);
}

/* --- all subsets --- */

/* Operands of the list that have a name. */
static unsigned named(char *const *list, size_t n) {
    unsigned mask = 0;
    for (size_t k = 0; k < n; k++)
        if (list[k] && *list[k]) mask |= 1u << k;
    return mask;
}

/* ONNX lets all of the mask be left out. */
static bool allowed(const char *letters, unsigned mask, bool outputs) {
    for (size_t k = 0; mask >> k; k++) {
        char letter = omit_letter(letters, k);
        if ((mask >> k & 1) && letter != 'o' && !(outputs && letter == 'v')) return false;
    }
    return true;
}

/* The mask takes something from the end of one of the lists, whose length means something else for operators
 * of any number. */
static bool can_cut(const struct omit *o, unsigned in, unsigned out) {
    const size_t n_in = o->as_is.n_input, n_out = o->as_is.n_output;
    if (strchr(o->may_in, 'v') || strchr(o->may_out, 'v')) return false;
    return (n_in && (in >> (n_in - 1) & 1)) || (n_out && (out >> (n_out - 1) & 1));
}

/* A graph without outputs is refused for that: nothing to learn. */
static int left_out(const struct omit *o, unsigned in, unsigned out) {
    const bool all = out == named(o->as_is.output, o->as_is.n_output);
    const bool is_model = allowed(o->may_in, in, false) && allowed(o->may_out, out, true);
    int rc = MOIRE_OK;
    for (int form = EMPTY; form <= UNREAD && !rc; form++) {
        if (form == SHORT && !can_cut(o, in, out)) continue;
        if (form == UNREAD && (!out || all || !allowed(o->may_in, in, false))) continue;
        if (is_model && all) continue;
        if (is_model || form == UNREAD)
            rc = must_answer(o, in, out, (enum form)form);
        else
            rc = must_refuse(o, in, out, (enum form)form);
    }
    return rc;
}

/* What the node gives with these inputs and all outputs.  1: its own conditions do not allow that. */
static int answer_in_full(struct omit *o, unsigned in) {
    moire_error err = {0};
    int kept[PORTS], n_kept, n_full = 0;
    size_t n;
    char type[80];
    uint8_t *bytes = change(o, in, 0, EMPTY, &n, kept, &n_kept);
    if (!bytes) return mo_fail(o->err, MOIRE_ENOMEM, "out of memory");
    int rc = run(o, bytes, n, false, o->full, &n_full, &err);
    int planned = rc ? run(o, bytes, n, true, o->full, &n_full, NULL) : rc;
    free(bytes);
    if (rc && !planned) {
        mo_way_free(o->env, o->full, n_full);
        memset(o->full, 0, sizeof o->full);
        return mo_fail(o->err, MOIRE_EFAILED, "%s: the plan answers, the reference declines by '%.300s'",
                       describe(o, in, 0, EMPTY), err.message);
    }
    if (!rc || !in) return rc ? 1 : MOIRE_OK;
    snprintf(type, sizeof type, "(%s)", o->node->op_type);
    if (!strstr(err.message, type))
        return mo_fail(o->err, MOIRE_EFAILED, "%s is declined by '%.300s'", describe(o, in, 0, EMPTY),
                       err.message);
    o->log->counts->declined++;
    if (o->log->verbose) printf("declined %s: %s\n", describe(o, in, 0, EMPTY), err.message);
    return 1;
}

static int all_subsets(struct omit *o) {
    const unsigned in_names = named(o->as_is.input, o->as_is.n_input);
    const unsigned out_names = named(o->as_is.output, o->as_is.n_output);
    int rc = MOIRE_OK;
    for (unsigned in = 0; !rc; in = (in - in_names) & in_names) {
        int full = allowed(o->may_in, in, false) ? answer_in_full(o, in) : 0;
        if (full == 1 && !in) return 1;
        rc = full == 1 ? MOIRE_OK : full;
        for (unsigned out = 0; !full; out = (out - out_names) & out_names) {
            if ((in || out) && (rc = left_out(o, in, out))) break;
            if (out == out_names) break;
        }
        mo_way_free(o->env, o->full, (int)o->n_graph_out);
        if (in == in_names) break;
    }
    return rc;
}

static int64_t opset_of(const Onnx__ModelProto *model) {
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = model->opset_import[i]->domain;
        if (!domain || !*domain || !strcmp(domain, "ai.onnx")) return model->opset_import[i]->version;
    }
    return 0;
}

int omit_model(const struct mo_env *env, const struct omit_rules *rules, const void *bytes, size_t n,
               const struct mo_dataset *data, const struct omit_log *log, moire_error *err) {
    char what[WHAT];
    struct omit o = {
        .env = env, .data = data, .log = log, .what = what, .err = err, .model = unpack(bytes, n)};
    if (!o.model) return mo_fail(err, MOIRE_EFORMAT, "malformed model");
    o.node = o.model->graph->node[0];
    o.as_is = *o.node;
    o.n_graph_out = o.model->graph->n_output;
    o.all_out = o.model->graph->output;
    int rc = 1;
    if (o.n_graph_out <= PORTS && o.as_is.n_input + o.as_is.n_output <= MOST_BITS &&
        omit_rules_find(rules, o.node->op_type, opset_of(o.model), &o.may_in, &o.may_out))
        rc = all_subsets(&o);
    if (!rc) log->counts->models++;
    free_model(o.model);
    return rc;
}
