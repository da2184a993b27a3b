/* SPDX-License-Identifier: Apache-2.0
 * policy_file.c - see policy_file.h. */
#include "runtime/learn/policy_file.h"

#include <string.h>
#include "runtime/learn/sacd.h"
#include "runtime/learn/td3.h"

static void walk_net(struct mo_learn_io *io, struct mo_region *region, const char *what, struct mo_net *net,
                     int outputs) {
    for (int l = 0; l <= MO_NET_LAYERS; l++)
        mo_learn_int(io, what, &net->size[l], 1, MO_NET_WIDTH);
    if (io->code) return;
    if (net->size[MO_NET_LAYERS] != outputs)
        mo_learn_refuse(io, MOIRE_EFORMAT, "%s has %d outputs; must be %d", what, net->size[MO_NET_LAYERS],
                        outputs);
    if (!mo_learn_room(io, mo_net_values(net->size))) return;
    if (io->way == MO_LEARN_READ && !mo_net_make(region, net->size, net))
        mo_learn_refuse(io, MOIRE_ENOMEM, "out of memory");
    if (!io->code) mo_learn_floats(io, what, net->values, net->n);
}

static void walk_policy(void *data, struct mo_learn_io *io) {
    struct mo_policy_file *p = data;
    mo_learn_text(io, "the type of GPU", p->gpus, sizeof p->gpus);
    mo_learn_int(io, "the number of models", &p->n_models, 1, MO_POLICY_MODELS);
    for (int i = 0; !io->code && i < p->n_models; i++)
        mo_learn_text(io, "a model's name", p->model[i], sizeof p->model[i]);
    mo_learn_int(io, "the number of GPUs", &p->n_gpus, 1, MO_SACD_ACTIONS);
    mo_learn_int(io, "the number of slots", &p->n_slots, 1, MO_TD3_SLOTS);
    mo_learn_word(io, &p->seed);
    mo_learn_long(io, &p->updates);
    if (io->code) return;
    walk_net(io, p->region, "the net that places", &p->place, p->n_gpus);
    walk_net(io, p->region, "the net that divides", &p->divide, 2 * p->n_slots);
}

int mo_policy_write(const struct mo_env *env, const char *path, const struct mo_policy_file *policy,
                    moire_error *err) {
    struct mo_policy_file copy = *policy; /* a walk may write; this one does not */
    return mo_learn_write(env, path, MO_LEARN_POLICY, walk_policy, &copy, err);
}

int mo_policy_read(const struct mo_env *env, const char *path, struct mo_policy_file *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    out->region = mo_region_create(env);
    if (!out->region) return mo_fail(err, MOIRE_ENOMEM, "out of memory reading '%.300s'", path);
    int code = mo_learn_read(env, path, MO_LEARN_POLICY, walk_policy, out, err);
    if (code) mo_policy_close(out);
    return code;
}

void mo_policy_close(struct mo_policy_file *policy) {
    mo_region_destroy(policy->region); /* NULL is fine */
    policy->region = NULL;
}

int mo_policy_model(const struct mo_policy_file *policy, const char *model) {
    for (int i = 0; i < policy->n_models; i++)
        if (!strcmp(policy->model[i], model)) return i;
    return -1;
}
