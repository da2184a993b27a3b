/* SPDX-License-Identifier: Apache-2.0
 * cgroup.c - bounded parsers for cpu.max, cpu.cfs_quota_us and /proc/self/cgroup. */
#include "runtime/device/cgroup.h"

#include <stdio.h>
#include <string.h>
#include "runtime/base/file.h"

enum { TEXT = 4096, PATH = 1024, MAX_DIGITS = 15, LEVELS = 64 };

/* A decimal number of at most 15 digits at *s; advances past it; false when there is none. */
static bool number(const char **s, int64_t *out) {
    const char *p = *s;
    int64_t v = 0;
    int digits = 0;
    bool negative = *p == '-';
    if (negative) p++;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (++digits > MAX_DIGITS) return false;
        v = v * 10 + (*p - '0');
    }
    if (!digits) return false;
    *s = p;
    *out = negative ? -v : v;
    return true;
}

static bool at_end(const char *s) {
    return !*s || (*s == '\n' && !s[1]);
}

/* quota and period in microseconds; a period out of [1 ms, 10 s] is nonsense. */
static int64_t ratio(int64_t quota, int64_t period, bool *bad) {
    if (quota == -1) return 0;
    if (quota <= 0 || period < 1000 || period > 10000000 || quota / period > 1000000) {
        *bad = true;
        return 0;
    }
    int64_t milli = quota * 1000 / period;
    return milli ? milli : 1;
}

int64_t mo_cgroup_v2_quota(const char *text, bool *bad) {
    int64_t quota, period;
    if (!strncmp(text, "max", 3) && (text[3] == ' ' || at_end(text + 3))) return 0;
    const char *s = text;
    if (!number(&s, &quota) || quota < 0 || *s++ != ' ' || !number(&s, &period) || !at_end(s)) {
        *bad = true;
        return 0;
    }
    return ratio(quota, period, bad);
}

int64_t mo_cgroup_v1_quota(const char *quota_us, const char *period_us, bool *bad) {
    int64_t quota, period;
    const char *q = quota_us, *p = period_us;
    if (!number(&q, &quota) || !at_end(q) || !number(&p, &period) || !at_end(p)) {
        *bad = true;
        return 0;
    }
    return ratio(quota, period, bad);
}

/* True when the comma-separated list [s, end) names `word`. */
static bool lists(const char *s, const char *end, const char *word) {
    size_t n = strlen(word);
    while (s < end) {
        const char *comma = memchr(s, ',', (size_t)(end - s));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - s) == n && !memcmp(s, word, n)) return true;
        s = stop + 1;
    }
    return false;
}

bool mo_cgroup_path(const char *text, const char *controller, char *out, size_t n) {
    while (*text) {
        const char *end = strchr(text, '\n');
        if (!end) end = text + strlen(text);
        const char *first = memchr(text, ':', (size_t)(end - text));
        const char *second = first ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
        if (second) {
            bool match = controller ? lists(first + 1, second, controller)
                                    : second == first + 1 && first == text + 1 && *text == '0';
            size_t length = (size_t)(end - second - 1);
            if (match && length < n && length && second[1] == '/') {
                memcpy(out, second + 1, length);
                out[length] = 0;
                return !strstr(out, "..");
            }
        }
        text = *end ? end + 1 : end;
    }
    return false;
}

static int64_t level_quota(const struct mo_env *env, const char *folder, bool v2, bool *bad) {
    char path[PATH + 64], text[256], period[256];
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        return mo_file_peek(env, path, text, sizeof text) < 0 ? 0 : mo_cgroup_v2_quota(text, bad);
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (mo_file_peek(env, path, text, sizeof text) < 0) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (mo_file_peek(env, path, period, sizeof period) < 0) return 0;
    return mo_cgroup_v1_quota(text, period, bad);
}

/* Walks from base + inside up to base. */
static int64_t walk(const struct mo_env *env, const char *base, const char *inside, bool v2, bool *bad) {
    char folder[PATH];
    int n = snprintf(folder, sizeof folder, "%s%s", base, inside);
    if (n < 0 || (size_t)n >= sizeof folder) return 0;
    size_t stop = strlen(base);
    int64_t least = 0;
    for (int level = 0; level < LEVELS; level++) {
        int64_t quota = level_quota(env, folder, v2, bad);
        if (quota && (!least || quota < least)) least = quota;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < stop || strlen(folder) <= stop) break;
        *slash = 0;
    }
    return least;
}

int64_t mo_cgroup_quota(const struct mo_env *env, const char *root, bool *bad) {
    char path[PATH], text[TEXT], inside[PATH / 2];
    int64_t least = 0;
    *bad = false;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (mo_file_peek(env, path, text, sizeof text) < 0) return 0;
    static const char *const v1[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    for (int i = 0; i < 3; i++) {
        bool v2 = i == 2;
        if (!mo_cgroup_path(text, v2 ? NULL : "cpu", inside, sizeof inside)) continue;
        snprintf(path, sizeof path, "%s%s", root, v2 ? "/sys/fs/cgroup" : v1[i]);
        int64_t quota = walk(env, path, inside, v2, bad);
        /* inside a container the namespace's root is mounted where the path of the host does not exist */
        if (!quota) quota = walk(env, path, "/", v2, bad);
        if (quota && (!least || quota < least)) least = quota;
    }
    return least;
}
