/* SPDX-License-Identifier: Apache-2.0
 * verb_plan.c - `moire plan`: how a planner cuts the GPUs of a machine into lets for a scenario. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "bench/plans/plan_show.h"
#include "bench/report/report.h"
#include "bench/load/session.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire plan SCENARIO --machine FILE.json|NAME [--planner P] [--load L] [--burst Z] [--budget N]\n"
    "                  [--svg F.svg] [--output F.json] [--json]\n\n"
    "Plans lets for a scenario with rates on a machine with GPUs, by the model of latency, interference and\n"
    "duty cycles (docs/gpu-lets.md), and says of every tenant that is not placed whole why, and how much it\n"
    "could have.  Exit code 5: not everything is placed.\n\n"
    "  SCENARIO, --machine  files, or names in bench/scenarios and bench/machines\n"
    "  --planner P          moire-gpu (default), ideal, gpulet-int, gpulet, selftune, sbp-half or sbp\n"
    "  --load L             multiple of the scenario's rates, 1 by default\n"
    "  --burst Z            a batch holds the mean of a duty cycle and Z standard deviations, 0 by default\n"
    "  --budget N           let evaluations of a bounded search\n"
    "  --svg F              a drawing of lets and duty cycles\n"
    "  --output F, --json   the plan as JSON, to a file or instead of the table\n\n"
    "Examples:\n"
    "  moire plan gpulet-equal --machine gpus4-v100\n"
    "  moire plan game --machine gpus4-2080ti --planner gpulet-int --load 8 --svg game.svg\n";

struct plan_options {
    const char *scenario, *machine, *svg, *output;
    const struct mo_planner *planner;
    double load, burst, budget;
    bool json;
};

static int take(struct plan_options *o, struct mo_args *args, moire_error *err) {
    if (mo_args_flag(args, "--machine", true)) {
        o->machine = args->value;
    } else if (mo_args_flag(args, "--planner", true)) {
        const struct mo_planner *planner = args->value ? mo_planner_find(args->value) : NULL;
        if (!planner)
            return mo_bench_bad_flag(err, "--planner", args->value, "no such planner; see moire plan --help");
        o->planner = planner;
    } else if (mo_args_flag(args, "--load", true)) {
        return mo_bench_number("--load", args->value, 0, 1e9, &o->load, err);
    } else if (mo_args_flag(args, "--burst", true)) {
        return mo_bench_number("--burst", args->value, 0, 1e9, &o->burst, err);
    } else if (mo_args_flag(args, "--budget", true)) {
        return mo_bench_number("--budget", args->value, 1, 1e9, &o->budget, err);
    } else if (mo_args_flag(args, "--svg", true)) {
        o->svg = args->value;
    } else if (mo_args_flag(args, "--output", true)) {
        o->output = args->value;
    } else if (mo_args_flag(args, "--json", false)) {
        o->json = true;
    } else if (args->argv[args->at][0] == '-' || o->scenario) {
        return mo_bench_bad_flag(err, args->argv[args->at], NULL, "not understood; see moire plan --help");
    } else {
        o->scenario = args->argv[args->at++];
    }
    return MOIRE_OK;
}

static int write_outputs(const struct mo_env *env, const struct plan_options *o, const json_t *document,
                         moire_error *err) {
    int code = MOIRE_OK;
    if (o->json)
        code = mo_bench_print_json(document, err);
    else
        mo_bench_plan_print(stdout, document);
    if (!code && o->output) code = mo_bench_write_json(env, document, o->output, err);
    if (!code && o->svg) code = mo_bench_plan_svg(env, document, o->svg, err);
    return code;
}

/* Memory that is too large for a stack. */
struct work {
    struct mo_bench_plan_view view;
    struct mo_lets_plan plan, spare;
    double nearest[MO_PLAN_TENANTS];
    char scenario[1024], machine[1024];
};

static int plan(const struct mo_bench_session *session, const struct plan_options *o, struct work *w,
                bool *complete, moire_error *err) {
    const struct mo_env *env = session->env;
    int code = mo_bench_find_data(session, "scenarios", o->scenario, w->scenario, sizeof w->scenario, err);
    if (!code) code = mo_bench_find_data(session, "machines", o->machine, w->machine, sizeof w->machine, err);
    if (!code) code = mo_bench_plan_open(env, w->machine, w->scenario, &w->view, err);
    if (code) return code;
    w->view.view.burst = o->burst;
    w->view.view.budget = (int64_t)o->budget;
    mo_bench_plan_load(&w->view, o->load);
    code = mo_plan_make(o->planner, &w->view.view, w->view.scratch, w->view.scratch_bytes, &w->plan, err);
    if (!code) code = mo_bench_plan_nearest(&w->view, o->planner, &w->plan, &w->spare, w->nearest, err);
    if (!code) {
        json_t *document = mo_bench_plan_json(&w->view, &w->plan, o->planner->name, o->load, w->nearest);
        code = document ? write_outputs(env, o, document, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
        json_decref(document);
        *complete = w->plan.complete;
    }
    mo_bench_plan_close(env, &w->view);
    return code;
}

static int run(const struct mo_env *env, int argc, char **argv) {
    struct plan_options o = {.planner = mo_planner_find("moire-gpu"), .load = 1};
    struct mo_args args = {.argc = argc, .argv = argv, .at = 1};
    struct mo_bench_session session;
    moire_error err = {0};
    bool complete = false;
    int code = MOIRE_OK;
    while (!code && args.at < args.argc)
        code = take(&o, &args, &err);
    if (!code && (!o.scenario || !o.machine))
        code = mo_fail(&err, MOIRE_EINVAL, "needs a scenario and --machine; see moire plan --help");
    if (!code) code = mo_bench_session_open(env, argc, argv, &session, &err);
    if (code) return mo_verb_fail("plan", &err);
    struct work *w = mo_alloc(env, sizeof *w);
    code = w ? plan(&session, &o, w, &complete, &err) : mo_fail(&err, MOIRE_ENOMEM, "out of memory");
    mo_free(env, w);
    mo_bench_session_close(&session);
    if (code) return mo_verb_fail("plan", &err);
    return complete ? MO_EXIT_OK : MO_EXIT_FAILED;
}

const struct mo_verb mo_verb_plan = {
    .name = "plan",
    .summary = "cut the GPUs of a machine into lets for a scenario",
    .usage = usage,
    .outputs = {"--svg", "--output"},
    .run = run,
};
