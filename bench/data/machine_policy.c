/* SPDX-License-Identifier: Apache-2.0
 * machine_policy.c - the trained policy of a machine: the file that its "policy" names, or that beside it,
 * "dir/four.json" and "dir/four.mo"; see machine.h. */
#include <stdio.h>
#include <string.h>
#include "bench/data/machine.h"
#include "runtime/planner/inss/inss_plan.h"

const char *mo_bench_machine_policy(struct mo_region *region, const char *path, const char *given) {
    char out[1024];
    const char *slash = strrchr(path, '/');
    const int dir = slash ? (int)(slash - path + 1) : 0;
    const size_t n = strlen(path);
    const bool json = n > 5 && !strcmp(path + n - 5, ".json");
    if (given)
        snprintf(out, sizeof out, "%.*s%s", given[0] == '/' ? 0 : dir, path, given);
    else
        snprintf(out, sizeof out, "%.*s.mo", (int)(json ? n - 5 : n), path);
    return mo_region_string(region, out, strlen(out));
}

int mo_bench_machine_learned(const struct mo_env *env, const struct mo_bench_machine *machine,
                             const char *weights, struct mo_policy_file *out, moire_error *err) {
    const char *from = weights ? weights : machine->policy;
    memset(out, 0, sizeof *out);
    if (machine->n_gpus != 1)
        return mo_fail(err, MOIRE_EINVAL, "'%.200s': inss needs GPUs of one type, and here are %d types",
                       machine->name, machine->n_gpus);
    int code = mo_inss_policy_open(env, from, &machine->gpus[0].kind, out, err);
    if (code == MOIRE_EIO && !weights)
        return mo_fail(
            err, MOIRE_EINVAL,
            "'%.300s' cannot be read: inss decides by a policy that `moire train inss` makes; name "
            "one with --weights",
            from);
    return code;
}
