/* SPDX-License-Identifier: Apache-2.0
 * instance.c - the activations of one query: kernel arguments resolved to an arena laid out by the plan,
 * inputs copied in and outputs described. */
#include <string.h>
#include "runtime/plan/plan_impl.h"
#include "runtime/plan/versions.h"

/* From this size on the arena asks for pages of 2 MiB (sys->alloc serves that alignment with them). */
enum { HUGE_PAGE = 2 << 20 };
/* Inputs of this size are read where the query has them if there is this much of them in all: to point all
 * layers there takes a microsecond per hundred, as long as it takes to copy the least of that. */
enum { READ_IN_PLACE_FROM = 4 << 10, READ_IN_PLACE_ALL = 128 << 10 };

/* NULL: it is in the arena, or has no storage yet. */
static void *constant_address(const struct mo_plan *plan, int id) {
    int64_t inside;
    int root = mo_alias_root(plan->graph, id, &inside);
    if (plan->graph->tensors[id]->data) return plan->graph->tensors[id]->data;
    if (plan->graph->tensors[root]->data) return (char *)plan->graph->tensors[root]->data + inside;
    return NULL;
}

/* What does not depend on where values lie. */
static void resolve_args(const struct mo_plan *plan, const struct mo_step *step, struct mo_kargs *args) {
    const struct mo_node *node = step->node;
    for (int i = 0; i < node->n_in && i < MO_KERNEL_IN; i++)
        if (node->in[i] >= 0) args->in_image[i] = plan->image[node->in[i]];
    for (int i = 0; i < node->n_out && i < MO_KERNEL_OUT; i++)
        if (node->out[i] >= 0) args->out_image[i] = plan->image[node->out[i]];
    if (node->fuse.residual >= 0 && node->fuse.residual < MO_KERNEL_IN)
        args->residual_image = args->in_image[node->fuse.residual];
    args->weights = step->weights;
    args->bias = step->bias;
    args->params = step->params;
}

static void place_args(const struct mo_instance *instance, const struct mo_node *node,
                       struct mo_kargs *args) {
    for (int i = 0; i < node->n_in && i < MO_KERNEL_IN; i++)
        if (node->in[i] >= 0) args->in[i] = instance->value[node->in[i]].data;
    for (int i = 0; i < node->n_out && i < MO_KERNEL_OUT; i++)
        if (node->out[i] >= 0) args->out[i] = instance->value[node->out[i]].data;
    if (node->fuse.residual >= 0 && node->fuse.residual < MO_KERNEL_IN)
        args->residual = args->in[node->fuse.residual];
}

void mo_instance_bind(struct mo_instance *instance, void *arena) {
    const struct mo_plan *plan = instance->plan;
    if (instance->arena == arena) return;
    instance->arena = arena;
    for (int i = 0; i < plan->graph->n_tensors; i++)
        if (instance->placed[i]) instance->value[i].data = instance->arena + plan->offset[i];
    for (int k = 0; k < plan->n_steps; k++)
        place_args(instance, plan->steps[k].node, &instance->args[k]);
}

size_t mo_instance_arena_bytes(const struct mo_plan *plan) {
    return (size_t)plan->arena_bytes + 64;
}

static bool allocate(struct mo_instance *instance) {
    const struct mo_plan *plan = instance->plan;
    const struct mo_env *env = instance->env;
    size_t tensors = (size_t)plan->graph->n_tensors, most = 2 * MO_SPARE_OPERANDS;
    for (int k = 0; k < plan->n_steps; k++) {
        size_t n = (size_t)plan->steps[k].node->n_in + (size_t)plan->steps[k].node->n_out;
        if (n + 2 * MO_SPARE_OPERANDS > most) most = n + 2 * MO_SPARE_OPERANDS;
    }
    instance->args = mo_alloc(env, ((size_t)plan->n_steps + 1) * sizeof *instance->args);
    instance->pick = mo_alloc(env, (size_t)plan->n_steps + 1);
    instance->value = mo_alloc(env, (tensors + 1) * sizeof *instance->value);
    instance->placed = mo_alloc(env, (tensors + 1) * sizeof *instance->placed);
    instance->owned = mo_alloc(env, (tensors + 1) * sizeof *instance->owned);
    instance->io = mo_alloc(env, (most + 1) * sizeof *instance->io);
    instance->temp = mo_alloc(env, (most + 1) * sizeof *instance->temp);
    instance->given = mo_alloc(env, ((size_t)plan->graph->n_inputs + 1) * sizeof *instance->given);
    instance->body = mo_alloc(env, ((size_t)plan->n_bodies + 1) * sizeof *instance->body);
    return instance->args && instance->pick && instance->value && instance->placed && instance->owned &&
           instance->io && instance->temp && instance->given && instance->body;
}

static int no_memory(const struct mo_plan *plan, moire_error *err) {
    return mo_fail(err, MOIRE_ENOMEM, "out of memory: a query of '%s' needs %lld bytes", plan->graph->name,
                   (long long)plan->arena_bytes);
}

int mo_instance_create_bare(const struct mo_plan *plan, struct mo_instance **out, moire_error *err) {
    struct mo_instance *instance = mo_alloc(plan->env, sizeof *instance);
    *out = NULL;
    if (instance) {
        instance->plan = plan;
        instance->env = plan->env;
        instance->host = (struct mo_body_host){.run = mo_instance_run_body, .self = instance};
    }
    if (!instance || !allocate(instance)) {
        mo_instance_destroy(instance);
        return no_memory(plan, err);
    }
    for (int i = 0; i < plan->graph->n_tensors; i++) {
        instance->value[i] = mo_tensor_value(plan->graph->tensors[i]);
        instance->value[i].data = constant_address(plan, i);
        instance->placed[i] = !instance->value[i].data && plan->offset[i] >= 0;
    }
    for (int k = 0; k < plan->n_steps; k++)
        resolve_args(plan, &plan->steps[k], &instance->args[k]);
    *out = instance;
    return MOIRE_OK;
}

int mo_instance_create(const struct mo_plan *plan, struct mo_instance **out, moire_error *err) {
    const struct mo_sys *sys = plan->env->sys;
    size_t bytes = mo_instance_arena_bytes(plan);
    int rc = mo_instance_create_bare(plan, out, err);
    if (rc) return rc;
    (*out)->own = sys->alloc(sys->self, bytes >= HUGE_PAGE ? HUGE_PAGE : 64, bytes);
    if (!(*out)->own) {
        mo_instance_destroy(*out);
        *out = NULL;
        return no_memory(plan, err);
    }
    mo_instance_bind(*out, (*out)->own);
    return MOIRE_OK;
}

void mo_instance_pick(struct mo_instance *instance, int k, int pick) {
    const struct mo_step *step = &instance->plan->steps[k];
    if (step->n_versions < 2) return;
    instance->pick[k] = (unsigned char)pick;
    instance->args[k].weights = step->version[pick].weights;
    instance->args[k].bias = step->version[pick].bias;
}

void mo_instance_select_versions(struct mo_instance *instance, int begin, int end, double pressure,
                                 int cores) {
    for (int k = begin; k < end && k < instance->plan->n_steps; k++) {
        const struct mo_step *step = &instance->plan->steps[k];
        if (step->n_versions > 1) mo_instance_pick(instance, k, mo_version_choose(step, pressure, cores));
    }
}

void mo_instance_version(struct mo_instance *instance, int version) {
    for (int k = 0; k < instance->plan->n_steps; k++) {
        int n = instance->plan->steps[k].n_versions;
        if (n > 1) mo_instance_pick(instance, k, version < n ? version : n - 1);
    }
}

int mo_instance_picked(const struct mo_instance *instance, int layer) {
    return instance->pick[layer];
}

void mo_instance_destroy(struct mo_instance *instance) {
    if (!instance) return;
    if (instance->owned && instance->value) mo_instance_reset(instance);
    for (int i = 0; instance->body && i < instance->plan->n_bodies; i++)
        mo_instance_destroy(instance->body[i]);
    void *parts[] = {instance->own,   instance->args, instance->pick, instance->value, instance->placed,
                     instance->owned, instance->io,   instance->temp, instance->given, instance->body};
    const struct mo_env *env = instance->env;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mo_free(env, parts[i]);
    mo_free(env, instance);
}

void mo_instance_heed(struct mo_instance *instance, const _Atomic bool *unwanted) {
    instance->host.unwanted = unwanted;
}

void mo_instance_reset(struct mo_instance *instance) {
    mo_region_team_drop(instance);
    instance->host.unwanted = NULL;
    for (int i = 0; i < instance->plan->graph->n_tensors; i++) {
        if (!instance->owned[i]) continue;
        mo_free(instance->env, instance->owned[i]);
        instance->owned[i] = NULL;
        instance->value[i] = mo_tensor_value(instance->plan->graph->tensors[i]);
    }
    instance->rc = MOIRE_OK;
    instance->round = 0;
    instance->parts = NULL;
    instance->err = (moire_error){0};
}

/* Inputs have moved: their views and the layers that read them follow. */
static void follow(struct mo_instance *instance) {
    const struct mo_plan *plan = instance->plan;
    int64_t inside;
    for (int i = 0; i < plan->graph->n_tensors; i++) {
        if (!instance->placed[i]) continue;
        const int root = mo_alias_root(plan->graph, i, &inside);
        if (root != i) instance->value[i].data = (char *)instance->value[root].data + inside;
    }
    for (int k = 0; k < plan->n_steps; k++)
        place_args(instance, plan->steps[k].node, &instance->args[k]);
}

/* Bytes of an input that need not be copied. */
static int64_t stays(const struct mo_instance *instance, int input, const char *data) {
    const struct mo_graph *graph = instance->plan->graph;
    const struct mo_tensor *t = graph->tensors[graph->inputs[input]];
    const int64_t bytes = mo_tensor_bytes(t);
    return instance->placed[t->id] && bytes >= READ_IN_PLACE_FROM && (uintptr_t)data % 64 == 0 ? bytes : 0;
}

void mo_instance_read_inputs(struct mo_instance *instance, const char *const *data) {
    const struct mo_plan *plan = instance->plan;
    const int n = plan->graph->n_inputs;
    int64_t all = 0;
    bool moved = false;
    for (int i = 0; i < n; i++)
        all += stays(instance, i, data[i]);
    for (int i = 0; i < n; i++) {
        const struct mo_tensor *t = plan->graph->tensors[plan->graph->inputs[i]];
        const int64_t bytes = mo_tensor_bytes(t);
        if (bytes <= 0 || !instance->placed[t->id]) continue;
        char *own = instance->arena + plan->offset[t->id], *at = own;
        if (all >= READ_IN_PLACE_ALL && stays(instance, i, data[i]))
            at = (char *)(uintptr_t)data[i]; /* is only read */
        else
            memcpy(own, data[i], (size_t)bytes);
        moved = moved || instance->value[t->id].data != at;
        instance->value[t->id].data = at;
    }
    if (moved) follow(instance);
}

int mo_instance_set_input(struct mo_instance *instance, int input, const moire_tensor *tensor,
                          moire_error *err) {
    const struct mo_graph *graph = instance->plan->graph;
    if (input < 0 || input >= graph->n_inputs)
        return mo_fail(err, MOIRE_EINVAL, "input %d does not exist: the model has %d", input,
                       graph->n_inputs);
    const struct mo_tensor *t = graph->tensors[graph->inputs[input]];
    struct mo_shape shape = {.rank = tensor->rank};
    char want[160], got[160];
    for (int i = 0; i < tensor->rank && i < MOIRE_MAX_RANK; i++)
        shape.d[i] = tensor->shape[i];
    if (tensor->dtype != t->dtype)
        return mo_fail(err, MOIRE_ESHAPE, "input '%s' is %s, the model wants %s", t->name,
                       mo_dtype_name(tensor->dtype), mo_dtype_name(t->dtype));
    if (tensor->rank < 0 || tensor->rank > MOIRE_MAX_RANK || !mo_shape_equal(&shape, &t->shape))
        return mo_fail(err, MOIRE_ESHAPE, "input '%s' has shape %s, the model was loaded for %s", t->name,
                       mo_shape_text(&shape, got, sizeof got), mo_shape_text(&t->shape, want, sizeof want));
    int64_t bytes = mo_tensor_bytes(t);
    if (bytes < 0 || tensor->bytes != (size_t)bytes || (bytes && !tensor->data))
        return mo_fail(err, MOIRE_ESHAPE, "input '%s' has %zu bytes, shape %s needs %lld", t->name,
                       tensor->bytes, mo_shape_text(&t->shape, want, sizeof want), (long long)bytes);
    if (!bytes || instance->plan->offset[t->id] < 0) return MOIRE_OK;
    char *own = instance->arena + instance->plan->offset[t->id];
    if (instance->value[t->id].data != own) {
        instance->value[t->id].data = own;
        follow(instance);
    }
    memcpy(instance->value[t->id].data, tensor->data, (size_t)bytes);
    return MOIRE_OK;
}

int mo_instance_output(struct mo_instance *instance, int index, moire_tensor *out) {
    const struct mo_graph *graph = instance->plan->graph;
    if (index < 0 || index >= graph->n_outputs) return MOIRE_EINVAL;
    const struct mo_value *v = &instance->value[graph->outputs[index]];
    int64_t count = mo_shape_count(&v->shape);
    if (count < 0 || !v->data) return MOIRE_EFAILED; /* a dynamic layer has not run */
    /* the file declares a tensor and computes a sequence */
    if (v->dtype == MO_BUNDLE && graph->tensors[graph->outputs[index]]->dtype != MO_BUNDLE)
        return MOIRE_EFAILED;
    *out = (moire_tensor){.dtype = v->dtype, .rank = v->shape.rank, .data = v->data};
    for (int i = 0; i < v->shape.rank; i++)
        out->shape[i] = v->shape.d[i];
    out->bytes = (size_t)count * mo_dtype_bytes(v->dtype);
    return MOIRE_OK;
}

const struct mo_value *mo_instance_value(const struct mo_instance *instance, int tensor) {
    return &instance->value[tensor];
}

const char *mo_instance_message(const struct mo_instance *instance) {
    return instance->err.message;
}
