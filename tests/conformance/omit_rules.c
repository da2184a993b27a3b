/* SPDX-License-Identifier: Apache-2.0
 * omit_rules.c - reads operands.txt: one line an operator and opset that changed its operands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/conformance/omit.h"

struct rule {
    char op[48], in[16], out[16];
    int64_t since;
};

struct omit_rules {
    int n, cap;
    struct rule *rule;
};

static struct rule *append(struct omit_rules *r) {
    if (r->n == r->cap) {
        int cap = r->cap ? 2 * r->cap : 256;
        struct rule *wider = realloc(r->rule, (size_t)cap * sizeof *wider);
        if (!wider) return NULL;
        r->rule = wider;
        r->cap = cap;
    }
    return &r->rule[r->n++];
}

struct omit_rules *omit_rules_read(const char *path) {
    FILE *f = fopen(path, "r");
    struct omit_rules *r = f ? calloc(1, sizeof *r) : NULL;
    char line[200];
    bool ok = r;
    while (ok && fgets(line, sizeof line, f)) {
        char since[16], *end = since;
        if (*line == '#') continue;
        struct rule *rule = append(r);
        ok = rule && sscanf(line, "%47s %15s %15s %15s", rule->op, since, rule->in, rule->out) == 4;
        if (ok) rule->since = strtoll(since, &end, 10);
        ok = ok && end > since && !*end;
    }
    if (f) fclose(f);
    if (ok) return r;
    omit_rules_free(r);
    return NULL;
}

void omit_rules_free(struct omit_rules *rules) {
    if (rules) free(rules->rule);
    free(rules);
}

bool omit_rules_find(const struct omit_rules *rules, const char *op, int64_t opset, const char **in,
                     const char **out) {
    const struct rule *found = NULL;
    for (int i = 0; i < rules->n; i++)
        if (!strcmp(rules->rule[i].op, op) && rules->rule[i].since <= opset) found = &rules->rule[i];
    if (!found) return false;
    *in = found->in;
    *out = found->out;
    return true;
}

char omit_letter(const char *letters, size_t k) {
    size_t n = strlen(letters);
    if (k < n) return letters[k];
    return letters[n - 1] == 'v' ? 'v' : '-';
}
