/* SPDX-License-Identifier: Apache-2.0
 * bench_loadgen.c - `moire bench loadgen` as the command line asks for it. */
#include <string.h>
#include "bench/loadgen/loadgen.h"
#include "tools/moire/verbs/bench_common.h"

static void add_system(struct mo_loadgen_options *l, const char *family, const char *over) {
    if (l->n_systems < MO_LOADGEN_SYSTEMS)
        l->system[l->n_systems++] = (struct mo_loadgen_system){.family = family, .over = over};
}

/* moire as it is asked for: in LoadGen's process, or over a network, which a server always is. */
static int pick_ways(const struct mo_options *o, struct mo_loadgen_options *l, moire_error *err) {
    static const char *const nets[] = {"http", "grpc"};
    if (!o->over.n) add_system(l, "moire", o->server ? nets[0] : NULL);
    for (int i = 0; i < o->over.n; i++) {
        const char *word = o->over.word[i], *net = NULL;
        for (int k = 0; k < 2; k++)
            if (!strcmp(word, nets[k])) net = nets[k];
        if (!net && (o->server || strcmp(word, "none") != 0))
            return mo_flag_bad(err, "--over", word,
                               o->server ? "with --server must be http or grpc"
                                         : "must be none, http or grpc");
        add_system(l, "moire", net);
    }
    return MOIRE_OK;
}

/* moire, then the peer. */
static int pick_systems(const struct mo_options *o, struct mo_loadgen_options *l, moire_error *err) {
    if (o->server && o->over.n > 1)
        return mo_fail(err, MOIRE_EINVAL,
                       "--over: with --server one of http and grpc, which speak at ports of their own");
    if (o->server && o->peers.n)
        return mo_fail(err, MOIRE_EINVAL, "--peers: with --server the file of the model is not known here");
    if (o->server && !strchr(o->server, ':'))
        return mo_flag_bad(err, "--server", o->server, "must be like 127.0.0.1:8000");
    int code = pick_ways(o, l, err);
    if (code) return code;
    for (int i = 0; i < o->peers.n; i++) {
        if (!strcmp(o->peers.word[i], "none")) continue;
        if (strcmp(o->peers.word[i], "onnxruntime") != 0)
            return mo_flag_bad(err, "--peers", o->peers.word[i], "must be onnxruntime or none");
        add_system(l, "onnxruntime", NULL);
    }
    return MOIRE_OK;
}

static int check(const struct mo_bench_session *s, const struct mo_options *o, moire_error *err) {
    const bool server = !strcmp(o->scenario, "Server"), offline = !strcmp(o->scenario, "Offline");
    if (server && !(o->qps > 0))
        return mo_fail(err, MOIRE_EINVAL, "--scenario Server needs --qps: the rate that LoadGen sends");
    if (o->qps > 0 && !server && !offline)
        return mo_fail(err, MOIRE_EINVAL, "--qps goes with --scenario Server or Offline");
    if (o->qos_ms > 0 && !server)
        return mo_fail(err, MOIRE_EINVAL, "--latency-ms goes with --scenario Server");
    if (o->batch > 1 && (server || !strcmp(o->scenario, "SingleStream")))
        return mo_fail(err, MOIRE_EINVAL, "--batch goes with --scenario MultiStream or Offline");
    if (o->threads > s->cores)
        return mo_fail(err, MOIRE_EINVAL, "--threads %d: only %d cores are usable here", o->threads,
                       s->cores);
    return MOIRE_OK;
}

int mo_bench_run_loadgen(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                         moire_error *err) {
    struct mo_loadgen_options l = {.model = o->operands.word[0],
                                   .scenario = o->scenario,
                                   .server = o->server,
                                   .output = o->output_dir,
                                   .shapes = o->shapes.shape,
                                   .n_shapes = o->shapes.n,
                                   .threads = o->threads ? o->threads : s->cores,
                                   .samples = o->samples,
                                   .batch = o->batch > 0 ? (int)o->batch : 1,
                                   .qps = o->qps,
                                   .latency_ms = o->qos_ms,
                                   .seconds = o->seconds,
                                   .seed = o->seed,
                                   .generic = o->only_generic};
    int code = check(s, o, err);
    if (!code) code = pick_systems(o, &l, err);
    return code ? code : mo_loadgen(s, &l, document, err);
}
