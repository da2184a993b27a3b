/* SPDX-License-Identifier: Apache-2.0
 * series.c - see series.h. */
#include "bench/report/series.h"

#include <stddef.h>
#include <string.h>

static const char prefix[] = "moire/";

static const struct {
    const char *name, *colour;
    bool dashed;
} rows[] = {
    {"moire", "#d62f4b", false},
    {"fcfs", "#1f7ae0", false},
    {"fcfs-1", "#6aaae8", false},
    {"lanes", "#8a4fd0", false},
    {"lanes-reject", "#b58be6", false},
    {"equal", "#0aa2b4", false},
    {"edf-reject", "#e08a00", false},
    {"llf", "#c2519c", false},
    {"srpt", "#7a8a12", false},
    {"prema", "#8b5a3c", false},
    {"layerwise", "#3f51b5", false},
    {"fixed6", "#a8b03a", false},
    {"fixed11", "#c98b6b", false},
    {"veltair", "#159a5b", false},
    {"veltair-as", "#5fbf8f", false},
    {"veltair-ac", "#4a8f3c", false},
    {"veltair-time", "#8fbf5f", false},
    {"planaria", "#d07a5f", false},
    {"model-wise", "#5f87a8", false},
    {"round-robin", "#9c7b4f", false},
    {"priority", "#4f7fc9", false},
    {"priority-1", "#1fa0c4", false},
    {"priority-reset", "#7f93c9", true},
    {"flexy-0", "#c97f1f", false},
    {"flexy-1", "#2c8f4f", false},
    {"flexy-2", "#8f4fa8", false},
    {"flexy-3", "#c4508f", false},
    {"flexy-reset", "#7fb08f", true},
    {"flexy-1-packed", "#5f9f7f", true},
    {"priority-cut", "#3f6f9f", true},
    {"reef", "#b8862f", true},
    {"moire-classes", "#e8604f", false},
    {"moire-classes-parts", "#f09f8f", true},
    {"bound", "#6b7a8f", false},
    {"offline", "#98a6ba", false},
    {"moire-gpu", "#e0455f", false},
    {"moire-gpu-cut", "#ee8d9c", false},
    {"gpulet", "#2f9fd0", false},
    {"gpulet-int", "#1b6fae", false},
    {"gslice", "#d18f2c", false},
    {"igniter", "#8f6b2c", false},
    {"beam", "#2fa88f", false},
    {"beam-x10", "#7fd0bf", false},
    {"sbp", "#9a62d8", false},
    {"sbp-half", "#c4a3ea", false},
    {"ideal", "#7d8ca0", false},
    {"ideal-partitions", "#7d8ca0", true},
    {"gpulet-released", "#1b6fae", true},
    {"sbp-paper", "#9a62d8", true},
    {"openvino-latency", "#8a4fd0", true},
    {"openvino-throughput", "#b58be6", true},
    {"ort-fcfs-all", "#e08a00", true},
    {"ort-core-per-query", "#0aa2b4", true},
    {"ort-all-at-once-1t", "#7a8a12", true},
    {"ort-all-at-once-nt", "#8b5a3c", true},
    {"ort-all-at-once-nt-nospin", "#c98b6b", true},
};

static const char *const others[] = {"#b5485d", "#4a86c8", "#3d9970", "#c9822b", "#7d5bbf", "#2c94a3",
                                     "#b0629a", "#80893a", "#94694f", "#5f6fb8", "#6c8f5a", "#a8705f"};

const char *mo_series_policy(const char *name) {
    return strncmp(name, prefix, sizeof prefix - 1) ? name : name + sizeof prefix - 1;
}

bool mo_series_is_limit(const char *name) {
    const char *policy = mo_series_policy(name);
    return !strcmp(policy, "bound") || !strcmp(policy, "offline");
}

bool mo_series_has_latency(const char *name) {
    return strcmp(mo_series_policy(name), "bound") != 0;
}

struct mo_series mo_series_of(const char *name) {
    const char *policy = mo_series_policy(name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(policy, rows[i].name)) return (struct mo_series){rows[i].colour, rows[i].dashed};
    unsigned hash = 2166136261u; /* FNV-1a */
    for (const char *p = policy; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    return (struct mo_series){others[hash % (sizeof others / sizeof *others)], policy == name};
}
