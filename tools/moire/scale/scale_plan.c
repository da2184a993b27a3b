/* SPDX-License-Identifier: Apache-2.0
 * scale_plan.c - reads a plan; see scale_plan.h. */
#include "tools/moire/scale/scale_plan.h"

#include <arpa/inet.h>
#include <string.h>

#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

static const double most_qps = 1e9, most_ms = 3.6e6;
static const char word_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

/* --- texts ---------------------------------------------------------------------------------------------- */
static bool is_word(const char *text) {
    const size_t n = strlen(text);
    return n && n < MO_SCALE_NAME && strspn(text, word_letters) == n && text[0] != '.' && text[0] != '-';
}

static int check_word(const struct mo_json_file *f, const char *where, const char *text, moire_error *err) {
    return is_word(text) ? MOIRE_OK
                         : mo_json_fail(f, where, err,
                                        "a name has 1 to %d letters, digits, '.', '_' and '-', and begins "
                                        "with a letter or a digit",
                                        MO_SCALE_NAME - 1);
}

/* A part of the path that is "..". */
static bool goes_up(const char *path) {
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (!at[2] || at[2] == '/')) return true;
    return false;
}

/* Control characters, and those that a reader of YAML takes for ends of lines or not at all. */
static bool has_controls(const char *text) {
    static const char *const marks[] = {"\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf"};
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0)) return true;
    for (int i = 0; i < COUNT(marks); i++)
        if (strstr(text, marks[i])) return true;
    return false;
}

static int check_path(const struct mo_json_file *f, const char *where, const char *text, moire_error *err) {
    if (!*text || strlen(text) > 1024) return mo_json_fail(f, where, err, "a path has 1 to 1024 bytes");
    if (has_controls(text)) return mo_json_fail(f, where, err, "a path has no control characters");
    if (goes_up(text)) return mo_json_fail(f, where, err, "a path does not go up by '..'");
    return MOIRE_OK;
}

static int check_address(const struct mo_json_file *f, const char *where, struct mo_scale_node *node,
                         moire_error *err) {
    unsigned char bytes[16];
    node->is_ipv6 = strchr(node->address, ':') != NULL;
    if (node->is_ipv6 ? inet_pton(AF_INET6, node->address, bytes) == 1 : is_word(node->address))
        return MOIRE_OK;
    return mo_json_fail(f, where, err, "an address is the name of a host, or an IP address without its port");
}

/* --- arrays --------------------------------------------------------------------------------------------- */
/* Room for the entries of an array, and how many there are. */
static int make_room(const struct mo_json_file *f, const char *where, const json_t *array, int most,
                     size_t size, void *out, int *n, moire_error *err) {
    *n = (int)json_array_size(array);
    if (json_array_size(array) < 1 || json_array_size(array) > (size_t)most)
        return mo_json_fail(f, where, err, "must have 1 to %d entries", most);
    void *room = mo_region_array(f->region, (size_t)*n, size);
    if (!room) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
    memset(room, 0, (size_t)*n * size);
    *(void **)out = room;
    return MOIRE_OK;
}

static int find_model(const struct mo_scale_plan *p, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(p->model[i].name, name)) return i;
    return -1;
}

static int read_model(struct mo_scale_plan *p, int i, const json_t *object, moire_error *err) {
    char where[80];
    struct mo_scale_model *m = &p->model[i];
    const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, true, offsetof(struct mo_scale_model, name), 0, 0},
        {"file", MO_JSON_STRING, true, offsetof(struct mo_scale_model, file), 0, 0},
        {"qos_ms", MO_JSON_NUMBER, true, offsetof(struct mo_scale_model, qos_ms), 0, most_ms},
        {"qps", MO_JSON_NUMBER, true, offsetof(struct mo_scale_model, qps), 0, most_qps},
        {"replicas", MO_JSON_INT, true, offsetof(struct mo_scale_model, replicas), 1, MO_SCALE_NODES},
        {"attainment", MO_JSON_NUMBER, true, offsetof(struct mo_scale_model, attainment), 0, 1},
    };
    snprintf(where, sizeof where, "models[%d]", i);
    int code = mo_json_fields(&p->file, where, object, fields, COUNT(fields), m, err);
    if (code) return code;
    snprintf(where, sizeof where, "models[%d].name", i);
    code = check_word(&p->file, where, m->name, err);
    if (!code && find_model(p, i, m->name) >= 0)
        code = mo_json_fail(&p->file, where, err, "there are two models '%s'", m->name);
    snprintf(where, sizeof where, "models[%d].file", i);
    return code ? code : check_path(&p->file, where, m->file, err);
}

/* --- nodes ---------------------------------------------------------------------------------------------- */
struct share_raw {
    const char *name;
    double qps;
};

static int read_share(struct mo_scale_plan *p, int node, int i, const json_t *object, moire_error *err) {
    char where[80];
    struct mo_scale_node *n = &p->node[node];
    struct share_raw raw = {0};
    const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, true, offsetof(struct share_raw, name), 0, 0},
        {"qps", MO_JSON_NUMBER, true, offsetof(struct share_raw, qps), 0, most_qps},
    };
    snprintf(where, sizeof where, "nodes[%d].models[%d]", node, i);
    int code = mo_json_fields(&p->file, where, object, fields, COUNT(fields), &raw, err);
    if (code) return code;
    const int model = find_model(p, p->n_models, raw.name);
    if (model < 0) return mo_json_fail(&p->file, where, err, "there is no model '%.80s' above", raw.name);
    for (int k = 0; k < i; k++)
        if (n->share[k].model == model)
            return mo_json_fail(&p->file, where, err, "the node has the model '%s' twice", raw.name);
    n->share[i] = (struct mo_scale_share){model, raw.qps};
    return MOIRE_OK;
}

struct node_raw {
    struct mo_scale_node node;
    json_t *models;
};

/* One of the nodes before it has its name or its door. */
static int check_distinct(const struct mo_scale_plan *p, int i, const char *where, moire_error *err) {
    const struct mo_scale_node *n = &p->node[i];
    for (int k = 0; k < i; k++) {
        const struct mo_scale_node *other = &p->node[k];
        if (!strcmp(other->name, n->name))
            return mo_json_fail(&p->file, where, err, "there are two nodes '%s'", n->name);
        if (other->port == n->port && !strcmp(other->address, n->address))
            return mo_json_fail(&p->file, where, err, "nodes '%s' and '%s' have one address and port",
                                other->name, n->name);
    }
    return MOIRE_OK;
}

static int read_node(struct mo_scale_plan *p, int i, const json_t *object, moire_error *err) {
    char where[80];
    struct node_raw raw = {.node = {.port = 8001}};
    const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, true, offsetof(struct node_raw, node.name), 0, 0},
        {"address", MO_JSON_STRING, false, offsetof(struct node_raw, node.address), 0, 0},
        {"port", MO_JSON_INT, false, offsetof(struct node_raw, node.port), 1, 65535},
        {"cores", MO_JSON_INT, true, offsetof(struct node_raw, node.cores), 1, 65536},
        {"memory_mb", MO_JSON_INT, true, offsetof(struct node_raw, node.memory_mb), 1, 1e9},
        {"models", MO_JSON_ARRAY, true, offsetof(struct node_raw, models), 0, 0},
    };
    struct mo_scale_node *n = &p->node[i];
    snprintf(where, sizeof where, "nodes[%d]", i);
    int code = mo_json_fields(&p->file, where, object, fields, COUNT(fields), &raw, err);
    if (code) return code;
    *n = raw.node;
    if (!n->address) n->address = n->name;
    snprintf(where, sizeof where, "nodes[%d].name", i);
    code = check_word(&p->file, where, n->name, err);
    snprintf(where, sizeof where, "nodes[%d].address", i);
    if (!code) code = check_address(&p->file, where, n, err);
    snprintf(where, sizeof where, "nodes[%d]", i);
    if (!code) code = check_distinct(p, i, where, err);
    snprintf(where, sizeof where, "nodes[%d].models", i);
    if (!code)
        code = make_room(&p->file, where, raw.models, MO_SCALE_MODELS, sizeof *n->share, &n->share,
                         &n->n_shares, err);
    for (int k = 0; k < n->n_shares && !code; k++)
        code = read_share(p, i, k, json_array_get(raw.models, (size_t)k), err);
    return code;
}

static int check_replicas(const struct mo_scale_plan *p, moire_error *err) {
    for (int i = 0; i < p->n_models; i++) {
        char where[80];
        int64_t n = 0;
        for (int k = 0; k < p->n_nodes; k++)
            n += mo_scale_share_of(&p->node[k], i) != NULL;
        snprintf(where, sizeof where, "models[%d].replicas", i);
        if (n != p->model[i].replicas)
            return mo_json_fail(&p->file, where, err, "the model '%s' has %lld replicas and is on %lld nodes",
                                p->model[i].name, (long long)p->model[i].replicas, (long long)n);
    }
    return MOIRE_OK;
}

/* --- the whole ------------------------------------------------------------------------------------------ */
struct plan_raw {
    int64_t version;
    double qps;
    const char *routing;
    json_t *models, *nodes, *simulated;
};

static int read_plan(struct mo_scale_plan *p, moire_error *err) {
    struct plan_raw raw = {0};
    const struct mo_json_field fields[] = {
        {"plan", MO_JSON_INT, true, offsetof(struct plan_raw, version), 1, 1},
        {"qps", MO_JSON_NUMBER, true, offsetof(struct plan_raw, qps), 0, most_qps},
        {"routing", MO_JSON_STRING, true, offsetof(struct plan_raw, routing), 0, 0},
        {"models", MO_JSON_ARRAY, true, offsetof(struct plan_raw, models), 0, 0},
        {"nodes", MO_JSON_ARRAY, true, offsetof(struct plan_raw, nodes), 0, 0},
        {"simulated", MO_JSON_ARRAY, false, offsetof(struct plan_raw, simulated), 0, 0},
    };
    int code = mo_json_fields(&p->file, "", p->file.root, fields, COUNT(fields), &raw, err);
    if (!code) code = check_word(&p->file, "routing", raw.routing, err);
    if (code) return code;
    p->qps = raw.qps;
    p->routing = raw.routing;
    code = make_room(&p->file, "models", raw.models, MO_SCALE_MODELS, sizeof *p->model, &p->model,
                     &p->n_models, err);
    for (int i = 0; i < p->n_models && !code; i++)
        code = read_model(p, i, json_array_get(raw.models, (size_t)i), err);
    if (!code)
        code = make_room(&p->file, "nodes", raw.nodes, MO_SCALE_NODES, sizeof *p->node, &p->node, &p->n_nodes,
                         err);
    for (int i = 0; i < p->n_nodes && !code; i++)
        code = read_node(p, i, json_array_get(raw.nodes, (size_t)i), err);
    return code ? code : check_replicas(p, err);
}

static int finish(struct mo_scale_plan *p, int code, moire_error *err) {
    if (!code) code = read_plan(p, err);
    if (code) mo_scale_plan_close(p);
    return code;
}

int mo_scale_plan_load(const struct mo_env *env, const char *path, struct mo_scale_plan *out,
                       moire_error *err) {
    *out = (struct mo_scale_plan){.n_models = 0};
    return finish(out, mo_json_load(env, path, &out->file, err), err);
}

int mo_scale_plan_parse(const struct mo_env *env, const char *path, const char *text, size_t n,
                        struct mo_scale_plan *out, moire_error *err) {
    *out = (struct mo_scale_plan){.n_models = 0};
    return finish(out, mo_json_parse(env, path, text, n, &out->file, err), err);
}

void mo_scale_plan_close(struct mo_scale_plan *p) {
    mo_json_close(&p->file);
    *p = (struct mo_scale_plan){.n_models = 0};
}

const struct mo_scale_share *mo_scale_share_of(const struct mo_scale_node *node, int model) {
    for (int i = 0; i < node->n_shares; i++)
        if (node->share[i].model == model) return &node->share[i];
    return NULL;
}
