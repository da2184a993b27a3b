/* SPDX-License-Identifier: Apache-2.0
 * verb_plan.c - `moire plan`: how a planner cuts the GPUs of a machine into lets for a scenario. */
#include <stdio.h>
#include <string.h>
#include "bench/plans/plan_show.h"
#include "bench/report/report.h"
#include "bench/load/session.h"
#include "runtime/planner/fewest.h"
#include "runtime/planner/inss/inss_plan.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Plans lets for a scenario with rates on a machine with GPUs, by the model of latency, interference and\n"
    "duty cycles (docs/gpu-lets.md), and says of every tenant that is not placed whole why, and how much it\n"
    "could have.  SCENARIO is a file or a name in bench/scenarios.\n";

static const char notes[] =
    "Exit code 5: not everything is placed.\n"
    "\n"
    "Examples:\n"
    "  moire plan gpulet-equal --machine gpus4-v100\n"
    "  moire plan inss-four --machine gpus4-v100-mps --policy inss --weights policy.mo\n"
    "  moire plan game --machine gpus4-2080ti --planner gpulet-int --load 8 --svg game.svg\n";

static int write_outputs(const struct mo_env *env, const struct mo_options *o, json_t *document,
                         bool complete, moire_error *err) {
    moire_error part = {.code = MOIRE_EFAILED, .message = "not everything is placed"};
    int code = o->output ? mo_bench_write_json(env, document, o->output, err) : MOIRE_OK;
    if (!code && o->svg) code = mo_bench_plan_svg(env, document, o->svg, err);
    if (code) return code;
    if (!complete) mo_failure_put(document, &part);
    if (o->json) return mo_print_json(document, err);
    mo_bench_plan_print(stdout, document);
    return MOIRE_OK;
}

/* Memory that is too large for a stack. */
struct work {
    struct mo_bench_plan_view view;
    struct mo_lets_plan plan, spare;
    double nearest[MO_PLAN_TENANTS];
    struct mo_policy_file policy;
    char scenario[1024], machine[1024];
};

static int plan(const struct mo_bench_session *session, const struct mo_options *o, struct work *w,
                bool *complete, moire_error *err) {
    const struct mo_env *env = session->env;
    const struct mo_planner *learned = mo_inss_planner(o->planner);
    const struct mo_planner *planner = learned ? learned : mo_planner_find(o->planner);
    if (!planner) return mo_known_fail(MO_KNOWN_PLANNERS, "--planner", o->planner, err);
    if (o->weights && !learned)
        return mo_fail(err, MOIRE_EINVAL, "--weights goes with --policy inss, not with %s", planner->name);
    int code =
        mo_known_find_data(MO_KNOWN_SCENARIOS, o->operands.word[0], w->scenario, sizeof w->scenario, err);
    if (!code) code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, w->machine, sizeof w->machine, err);
    if (!code) code = mo_bench_plan_open(env, w->machine, w->scenario, &w->view, err);
    if (code) return code;
    if (learned) code = mo_bench_machine_learned(env, &w->view.machine, o->weights, &w->policy, err);
    if (learned && !code) w->view.view.learned = &w->policy;
    w->view.view.burst = o->burst;
    w->view.view.budget = (int64_t)o->budget;
    mo_bench_plan_load(&w->view, o->load);
    if (!code)
        code = o->fewest ? mo_plan_fewest(planner, &w->view.view, w->view.scratch, w->view.scratch_bytes,
                                          &w->plan, &w->view.view.n_gpus, err)
                         : mo_plan_make(planner, &w->view.view, w->view.scratch, w->view.scratch_bytes,
                                        &w->plan, err);
    if (!code) code = mo_bench_plan_nearest(&w->view, planner, &w->plan, &w->spare, w->nearest, err);
    if (!code) {
        json_t *document = mo_bench_plan_json(&w->view, &w->plan, planner->name, o->load, w->nearest);
        code = document ? write_outputs(env, o, document, w->plan.complete, err)
                        : mo_fail(err, MOIRE_ENOMEM, "out of memory");
        json_decref(document);
        *complete = w->plan.complete;
    }
    mo_policy_close(&w->policy);
    mo_bench_plan_close(env, &w->view);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    struct mo_bench_session session;
    moire_error err = {0};
    bool complete = false;
    int code = mo_bench_session_open(env, o->argc, o->argv, &session, &err);
    if (code) return mo_verb_fail(o, &err);
    struct work *w = mo_alloc(env, sizeof *w);
    code = w ? plan(&session, o, w, &complete, &err) : mo_fail(&err, MOIRE_ENOMEM, "out of memory");
    mo_free(env, w);
    mo_bench_session_close(&session);
    if (code) return mo_verb_fail(o, &err);
    return complete ? MO_EXIT_OK : MO_EXIT_FAILED;
}

const struct mo_verb mo_verb_plan = {
    .name = "plan",
    .group = MO_GROUP_SIMULATE,
    .summary = "divide GPUs into shares (\"lets\") for the request rates of a scenario",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_PLAN, .operands = "SCENARIO"}},
    .run = run,
};
