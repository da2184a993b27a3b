/* SPDX-License-Identifier: Apache-2.0
 * nearest.c - see nearest.h. */
#define _GNU_SOURCE
#include "runtime/base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 63 };

static int least(int a, int b) {
    return a < b ? a : b;
}

static int lower(char c) {
    return tolower((unsigned char)c);
}

/* Three rows of the table are enough: this one, the last one, and the one before for a swap. */
int mo_edit_distance(const char *a, const char *b) {
    int rows[3][LONGEST + 1];
    const int n = (int)strnlen(a, LONGEST + 1), m = (int)strnlen(b, LONGEST + 1);
    if (n > LONGEST || m > LONGEST) return LONGEST + 1;
    for (int j = 0; j <= m; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            const bool same = lower(a[i - 1]) == lower(b[j - 1]);
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

void mo_nearest_offer(struct mo_nearest *nearest, const char *name) {
    const size_t typed = strlen(nearest->word);
    const int most = typed < 2 ? 0 : typed < 6 ? 1 : (int)typed / 3;
    int distance = mo_edit_distance(nearest->word, name);
    if (typed >= 2 && !strncmp(nearest->word, name, typed)) distance = least(distance, 1);
    if (distance > most || (nearest->name && distance >= nearest->distance)) return;
    nearest->name = name;
    nearest->distance = distance;
}

const char *mo_nearest_text(const struct mo_nearest *nearest, char *out, size_t n) {
    snprintf(out, n, "%s%s%s", nearest->name ? "; did you mean '" : "", nearest->name ? nearest->name : "",
             nearest->name ? "'?" : "");
    return out;
}
