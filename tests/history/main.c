/* SPDX-License-Identifier: Apache-2.0
 * main.c - `moire-history FILE...`: checks dumped event histories.  Exit 0: every promise held; 1: one was
 * broken (which, and where, is printed); 2: a file cannot be read. */
#include <stdio.h>
#include <stdlib.h>
#include "tests/history/check.h"

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    size_t size = 1 << 20;
    char *text = malloc(size);
    for (*n = 0; text; size *= 2) {
        *n += fread(text + *n, 1, size - *n, f);
        if (*n < size) break;
        char *more = realloc(text, 2 * size);
        if (!more) free(text);
        text = more;
    }
    fclose(f);
    return text;
}

int main(int argc, char **argv) {
    int worst = argc < 2 ? 2 : 0;
    if (argc < 2) fprintf(stderr, "usage: moire-history FILE...\n");
    for (int i = 1; i < argc; i++) {
        size_t n = 0;
        char *text = read_file(argv[i], &n);
        if (!text) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 2;
        }
        struct history_verdict v = history_check(text, n);
        free(text);
        if (v.rule[0]) {
            printf("%s:%ld: %s broken: %s\n", argv[i], v.line, v.rule, v.message);
            worst = 1;
        } else {
            printf("%s: %ld events, %ld queries: every promise held\n", argv[i], v.events, v.queries);
        }
    }
    return worst;
}
