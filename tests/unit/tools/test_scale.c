/* SPDX-License-Identifier: Apache-2.0
 * test_scale.c - plans of models on machines: what is read, what is refused and where, and the files that
 * `moire scale` writes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/moire/scale/scale.h"

enum { TEXT = 1 << 14 };

#define MODEL                                                                                                \
    "{\"name\": \"a\", \"file\": \"m/a.onnx\", \"qos_ms\": 5, \"qps\": 4, \"replicas\": 1, \"attainment\": " \
    "0.99}"
#define NODE                                                                                                 \
    "{\"name\": \"n\", \"address\": \"10.0.0.1\", \"port\": 8001, \"cores\": 4, \"memory_mb\": 1024, "       \
    "\"models\": [{\"name\": \"a\", \"qps\": 4}]}"
#define PLAN(models, nodes)                                                                                  \
    "{\"plan\": 1, \"qps\": 4, \"routing\": \"deadline\", \"models\": [" models "], \"nodes\": [" nodes "]}"

static struct mo_env env; /* which plans refer to */

static int parse(const char *text, struct mo_scale_plan *out, moire_error *err) {
    return mo_scale_plan_parse(&env, "plan.json", text, strlen(text), out, err);
}

/* --- reading -------------------------------------------------------------------------------------------- */
static void a_plan_is_read(void **state) {
    (void)state;
    struct mo_scale_plan p;
    moire_error err = {0};
    assert_int_equal(parse(PLAN(MODEL, NODE), &p, &err), MOIRE_OK);
    assert_int_equal(p.n_models, 1);
    assert_int_equal(p.n_nodes, 1);
    assert_string_equal(p.model[0].file, "m/a.onnx");
    assert_int_equal(p.node[0].port, 8001);
    assert_int_equal(p.node[0].share[0].model, 0);
    assert_non_null(mo_scale_share_of(&p.node[0], 0));
    assert_null(mo_scale_share_of(&p.node[0], 1));
    mo_scale_plan_close(&p);
    mo_scale_plan_close(&p);
}

/* What was simulated is no reader's business; a node without an address is reached by its name. */
static void what_may_be_there_or_not(void **state) {
    (void)state;
    struct mo_scale_plan p;
    moire_error err = {0};
    const char *text = "{\"plan\": 1, \"qps\": 4, \"routing\": \"random\", \"simulated\": [{\"any\": 1}], "
                       "\"models\": [" MODEL "], \"nodes\": [{\"name\": \"n\", \"cores\": 4, "
                       "\"memory_mb\": 1024, \"models\": [{\"name\": \"a\", \"qps\": 4}]}]}";
    assert_int_equal(parse(text, &p, &err), MOIRE_OK);
    assert_string_equal(p.node[0].address, "n");
    assert_int_equal(p.node[0].port, 8001);
    mo_scale_plan_close(&p);
}

/* A plan in which one text took another's place. */
static char *changed(const char *from, const char *to) {
    static const char plan[] = PLAN(MODEL, NODE);
    const char *at = strstr(plan, from);
    assert_non_null(at);
    char *text = NULL;
    assert_true(asprintf(&text, "%.*s%s%s", (int)(at - plan), plan, to, at + strlen(from)) > 0);
    return text;
}

static void hostile_plans_are_refused_by_place(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *says;
    } rows[] = {
        {"\"plan\": 1", "\"plan\": 2", "plan"},
        {"\"plan\": 1, ", "", "\"plan\" is missing"},
        {"\"qps\": 4, \"routing\"", "\"qps\": -4, \"routing\"", "qps"},
        {"\"deadline\"", "\"a b\"", "routing"},
        {"\"routing\"", "\"rooting\"", "rooting: unknown key"},
        {"\"name\": \"a\", \"file\"", "\"name\": \"a\\\"\\n\", \"file\"", "models[0].name"},
        {"\"name\": \"a\", \"file\"", "\"name\": \"..\", \"file\"", "models[0].name"},
        {"\"name\": \"a\", \"file\"", "\"name\": \"-a\", \"file\"", "models[0].name"},
        {"\"name\": \"a\", \"file\"", "\"name\": \"a/b\", \"file\"", "models[0].name"},
        {"\"name\": \"a\", \"file\"", "\"name\": \"a b\", \"file\"", "models[0].name"},
        {"\"name\": \"a\", \"file\"", "\"name\": \"\", \"file\"", "models[0].name"},
        {"\"name\": \"a\", \"file\"", "\"name\": \"\\u00e4\", \"file\"", "models[0].name"},
        {"m/a.onnx", "m/../a.onnx", "models[0].file"},
        {"m/a.onnx", "..", "models[0].file"},
        {"m/a.onnx", "a\\nb", "models[0].file"},
        {"m/a.onnx", "a\\u007f", "models[0].file"},
        {"m/a.onnx", "a\\u0085b", "models[0].file"},
        {"m/a.onnx", "a\\u2028b", "models[0].file"},
        {"m/a.onnx", "", "models[0].file"},
        {"\"replicas\": 1", "\"replicas\": 2", "has 2 replicas and is on 1 nodes"},
        {"\"replicas\": 1", "\"replicas\": 0", "replicas"},
        {"\"attainment\": 0.99", "\"attainment\": 1.5", "attainment"},
        {"\"attainment\": 0.99", "\"attainment\": \"x\"", "attainment"},
        {"\"qos_ms\": 5", "\"qos_ms\": -5", "qos_ms"},
        {"\"name\": \"n\"", "\"name\": \"../n\"", "nodes[0].name"},
        {"10.0.0.1", "10.0.0.1:80", "nodes[0].address"},
        {"10.0.0.1", "h\\nserver x", "nodes[0].address"},
        {"10.0.0.1", "::1::", "nodes[0].address"},
        {"\"port\": 8001", "\"port\": 0", "port"},
        {"\"port\": 8001", "\"port\": 65536", "port"},
        {"\"port\": 8001", "\"port\": 1.5", "port"},
        {"\"cores\": 4", "\"cores\": 0", "cores"},
        {"\"memory_mb\": 1024", "\"memory_mb\": 1e99", "memory_mb"},
        {"[{\"name\": \"a\", \"qps\": 4}]", "[]", "nodes[0].models"},
        {"[{\"name\": \"a\", \"qps\": 4}]", "[{\"name\": \"b\", \"qps\": 4}]", "no model 'b'"},
        {"[{\"name\": \"a\", \"qps\": 4}]", "[7]", "nodes[0].models[0]"},
        {"[{\"name\": \"a\", \"qps\": 4}]", "[{\"name\": \"a\", \"qps\": 4}, {\"name\": \"a\", \"qps\": 4}]",
         "twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mo_scale_plan p;
        moire_error err = {0};
        char *text = changed(rows[i].from, rows[i].to);
        const int code = parse(text, &p, &err);
        if (code != MOIRE_EFORMAT || !strstr(err.message, rows[i].says))
            fail_msg("%s -> %s: %d, %s", rows[i].from, rows[i].to, code, err.message);
        free(text);
    }
}

static void what_is_there_twice_is_refused(void **state) {
    (void)state;
    struct mo_scale_plan p;
    moire_error err = {0};
    assert_int_equal(parse(PLAN(MODEL ", " MODEL, NODE), &p, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "two models 'a'"));
    assert_int_equal(parse(PLAN(MODEL, NODE ", " NODE), &p, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "two nodes 'n'"));
    char *text =
        changed("\"nodes\": [", "\"nodes\": [{\"name\": \"o\", \"address\": \"10.0.0.1\", \"port\": 8001, "
                                "\"cores\": 1, \"memory_mb\": 1, \"models\": [{\"name\": \"a\", "
                                "\"qps\": 1}]}, ");
    assert_int_equal(parse(text, &p, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "have one address and port"));
    free(text);
}

/* Every beginning of a plan is no plan, and breaks nothing. */
static void beginnings_of_a_plan_are_refused(void **state) {
    (void)state;
    static const char plan[] = PLAN(MODEL, NODE);
    for (size_t n = 0; n + 1 < sizeof plan; n++) {
        struct mo_scale_plan p;
        moire_error err = {0};
        if (n + 2 < sizeof plan)
            assert_int_not_equal(mo_scale_plan_parse(&env, "p", plan, n, &p, &err), MOIRE_OK);
    }
}

/* --- files ---------------------------------------------------------------------------------------------- */
static char folder[] = "/tmp/moire-scale-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    env = mo_env_default();
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

typedef int (*engine)(const struct mo_scale_plan *plan, const struct mo_scale_options *options,
                      struct mo_scale_folder *folder, moire_error *err);

static int write_out(const char *plan, engine with, const struct mo_scale_options *o, moire_error *err) {
    struct mo_scale_plan p;
    struct mo_scale_folder f;
    assert_int_equal(parse(plan, &p, err), MOIRE_OK);
    assert_int_equal(mo_scale_folder_open(&env, folder, &f, err), MOIRE_OK);
    const int code = with(&p, o, &f, err);
    mo_scale_folder_close(&f);
    mo_scale_plan_close(&p);
    return code;
}

static const char *content(const char *name) {
    static char text[TEXT];
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static void has(const char *name, const char *what) {
    if (!strstr(content(name), what)) fail_msg("%s lacks: %s", name, what);
}

static const struct mo_scale_options usual = {
    .listen = "*:8000", .agent_step = 1000, .image = "moire:latest"};

static void haproxy_has_a_backend_for_each_model(void **state) {
    (void)state;
    moire_error err = {0};
    assert_int_equal(write_out(PLAN(MODEL, NODE), mo_scale_haproxy, &usual, &err), MOIRE_OK);
    has("haproxy.cfg", "    bind *:8000\n");
    has("haproxy.cfg", "    retry-on conn-failure\n");
    has("haproxy.cfg", "    use_backend model.a if { path_beg /v2/models/ } { path,field(4,/) -m str a }\n");
    has("haproxy.cfg",
        "\nbackend model.a\n"
        "    balance leastconn\n"
        "    option httpchk\n"
        "    http-check send meth GET uri /v2/models/a/ready ver HTTP/1.1 hdr host moire\n"
        "    http-check expect status 200\n"
        "    default-server inter 500ms fastinter 200ms downinter 500ms fall 2 rise 2 weight 100\n"
        "    server n 10.0.0.1:8001 check tcp-ut 5s maxconn 900 agent-check agent-port 9001 agent-inter "
        "500ms agent-send "
        "\"a\\n\"\n");
    assert_string_equal(content("nodes/n.json"),
                        "{\n  \"host\": \"10.0.0.1\",\n  \"http_port\": 8001,\n"
                        "  \"grpc_port\": -1,\n  \"metrics_port\": -1,\n"
                        "  \"load_first\": true,\n"
                        "  \"agent_port\": 9001,\n  \"drain_seconds\": 3,\n"
                        "  \"models\": [\n"
                        "    {\"name\": \"a\", \"path\": \"m/a.onnx\", \"qos_ms\": 5}\n"
                        "  ]\n}\n");
}

static void a_quote_in_a_path_ends_nothing(void **state) {
    (void)state;
    moire_error err = {0};
    char *text = changed("m/a.onnx", "m\\\"\\\\/a.onnx");
    assert_int_equal(write_out(text, mo_scale_haproxy, &usual, &err), MOIRE_OK);
    has("nodes/n.json", "\"path\": \"m\\\"\\\\/a.onnx\"");
    assert_int_equal(write_out(text, mo_scale_ray, &usual, &err), MOIRE_OK);
    has("config.yaml", "file: \"m\\\"\\\\/a.onnx\"\n");
    free(text);
}

static void options_of_haproxy_are_checked(void **state) {
    (void)state;
    static const char *const bad[] = {"",    "8000",   "*:0",   "*:65536", "*:1 ssl",
                                      "x:1", "[::1:1", "[::1]", "a\n*:1",  "*:"};
    static const char *const good[] = {"*:8000", "10.0.0.1:1", "[::1]:65535"};
    moire_error err = {0};
    struct mo_scale_options o = usual;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.listen = bad[i];
        if (write_out(PLAN(MODEL, NODE), mo_scale_haproxy, &o, &err) != MOIRE_EINVAL)
            fail_msg("'%s'", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        o.listen = good[i];
        assert_int_equal(write_out(PLAN(MODEL, NODE), mo_scale_haproxy, &o, &err), MOIRE_OK);
    }
    o.agent_step = 0;
    assert_int_equal(write_out(PLAN(MODEL, NODE), mo_scale_haproxy, &o, &err), MOIRE_OK);
    assert_null(strstr(content("haproxy.cfg"), "agent"));
    o.agent_step = 60000;
    assert_int_equal(write_out(PLAN(MODEL, NODE), mo_scale_haproxy, &o, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "node 'n'"));
}

static void kserve_has_what_a_model_needs(void **state) {
    (void)state;
    moire_error err = {0};
    assert_int_equal(write_out(PLAN(MODEL, NODE), mo_scale_kserve, &usual, &err), MOIRE_OK);
    has("runtime.yaml", "image: \"moire:latest\"");
    has("models/a.yaml", "kind: InferenceService\n");
    has("models/a.yaml", "        requests: {cpu: \"4\", memory: 819Mi}\n"
                         "        limits: {cpu: \"4\", memory: 819Mi}\n");
    has("models/a.yaml", "kind: HorizontalPodAutoscaler\n");
    has("models/a.yaml", "kind: PodDisruptionBudget\n");
    has("models/a.yaml", "\"qos_ms\": 5}]}");
}

static void names_that_kubernetes_cannot_take(void **state) {
    (void)state;
    static const struct {
        const char *name, *file, *says;
    } rows[] = {
        {"Res_Net.1", "models/res-net-1.yaml", NULL},
        {"9b", "models/m-9b.yaml", NULL},
        {"a_", NULL, "ends with a letter"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL, "at most"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        moire_error err = {0};
        char *text = NULL;
        assert_true(
            asprintf(&text,
                     "{\"plan\": 1, \"qps\": 4, \"routing\": \"two\", \"models\": [{\"name\": \"%s\", "
                     "\"file\": \"x\", \"qos_ms\": 0, \"qps\": 4, \"replicas\": 1, \"attainment\": 1}], "
                     "\"nodes\": [{\"name\": \"n\", \"cores\": 1, \"memory_mb\": 1, \"models\": "
                     "[{\"name\": \"%s\", \"qps\": 0}]}]}",
                     rows[i].name, rows[i].name) > 0);
        const int code = write_out(text, mo_scale_kserve, &usual, &err);
        assert_int_equal(code, rows[i].file ? MOIRE_OK : MOIRE_EFORMAT);
        if (rows[i].file)
            has(rows[i].file, "kind: InferenceService\n");
        else
            assert_non_null(strstr(err.message, rows[i].says));
        free(text);
    }
}

static void an_image_is_a_name(void **state) {
    (void)state;
    moire_error err = {0};
    struct mo_scale_options o = usual;
    static const char *const bad[] = {"", "a b", "a\"", "a\nb", "a'"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.image = bad[i];
        assert_int_equal(write_out(PLAN(MODEL, NODE), mo_scale_kserve, &o, &err), MOIRE_EINVAL);
    }
}

static void ray_has_an_application_for_each_model(void **state) {
    (void)state;
    moire_error err = {0};
    assert_int_equal(write_out(PLAN(MODEL, NODE), mo_scale_ray, &usual, &err), MOIRE_OK);
    has("moire_app.py", "from moire.ray import build, front");
    has("config.yaml", "  - {name: moire-front, route_prefix: /, import_path: \"moire_app:front\"}\n"
                       "  - name: \"a\"\n    route_prefix: \"/v2/models/a\"\n    import_path: moire_app:app\n"
                       "    args:\n      name: \"a\"\n      file: \"m/a.onnx\"\n      qos_ms: 5\n");
    has("ray.env", "9101.\nRAY_SERVE_ENABLE_HA_PROXY=1\n");
    static const char taken[] = PLAN("{\"name\": \"moire-front\", \"file\": \"a.onnx\", \"qos_ms\": 5, "
                                     "\"qps\": 4, \"replicas\": 1, \"attainment\": 1}",
                                     "{\"name\": \"n\", \"cores\": 4, \"memory_mb\": 1024, \"models\": "
                                     "[{\"name\": \"moire-front\", \"qps\": 4}]}");
    assert_int_equal(write_out(taken, mo_scale_ray, &usual, &err), MOIRE_EFORMAT);
    assert_non_null(strstr(err.message, "moire-front"));
    static const char two[] = PLAN("{\"name\": \"a\", \"file\": \"a.onnx\", \"qos_ms\": 5, \"qps\": 4, "
                                   "\"replicas\": 2, \"attainment\": 1}",
                                   NODE ", {\"name\": \"o\", \"cores\": 4, \"memory_mb\": 1024, \"models\": "
                                        "[{\"name\": \"a\", \"qps\": 4}]}");
    assert_int_equal(write_out(two, mo_scale_ray, &usual, &err), MOIRE_OK);
    has("ray.env", "\n# RAY_SERVE_ENABLE_HA_PROXY=1\n"); /* it would not reach the other node's replicas */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_read),
        cmocka_unit_test(what_may_be_there_or_not),
        cmocka_unit_test(hostile_plans_are_refused_by_place),
        cmocka_unit_test(what_is_there_twice_is_refused),
        cmocka_unit_test(beginnings_of_a_plan_are_refused),
        cmocka_unit_test(haproxy_has_a_backend_for_each_model),
        cmocka_unit_test(a_quote_in_a_path_ends_nothing),
        cmocka_unit_test(options_of_haproxy_are_checked),
        cmocka_unit_test(kserve_has_what_a_model_needs),
        cmocka_unit_test(names_that_kubernetes_cannot_take),
        cmocka_unit_test(an_image_is_a_name),
        cmocka_unit_test(ray_has_an_application_for_each_model),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
