/* SPDX-License-Identifier: Apache-2.0
 * open.c - loading the driver, finding GPUs, and the table that the plugin exports. */
#include "runtime/gpu/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_QUEUE = 2, GREEN_LEVEL = 12040 };
static const int64_t default_hang_ns = 10000000000;

/* Names, sizes and what the driver counts. */
static int read_info(struct mo_cuda_gpu *gpu, moire_error *err) {
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    struct mo_gpu_info *info = &gpu->info;
    int l2 = 0;
    const struct {
        unsigned attribute;
        int *out;
    } numbers[] = {
        {MO_CU_ATTR_SMS, &info->sms},     {MO_CU_ATTR_MAJOR, &info->major},
        {MO_CU_ATTR_MINOR, &info->minor}, {MO_CU_ATTR_CLOCK_KHZ, &info->clock_khz},
        {MO_CU_ATTR_L2_BYTES, &l2},       {MO_CU_ATTR_COPY_ENGINES, &info->copy_engines},
    };
    unsigned r = cu->device_get(&gpu->device, gpu->index);
    if (!r) r = cu->device_name(info->name, sizeof info->name, gpu->device);
    if (!r) r = cu->device_bus(info->bus, sizeof info->bus, gpu->device);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !r; i++)
        r = cu->device_attribute(numbers[i].out, numbers[i].attribute, gpu->device);
    if (r) return mo_cuda_fail(gpu, r, err, "ask what it is");
    info->l2_bytes = l2;
    info->driver = gpu->system->level;
    return MOIRE_OK;
}

static int open_green(struct mo_cuda_gpu *gpu, moire_error *err) {
    const struct mo_gpu_system *s = gpu->system;
    if (s->level < GREEN_LEVEL)
        return mo_fail(
            err, MOIRE_EUNSUPPORTED,
            "the NVIDIA driver is of level %d.%d; lets need green contexts, which came with 12.4 (R550): "
            "update it",
            s->level / 1000, s->level % 1000 / 10);
    const unsigned r = s->cu.primary_retain(&gpu->main, gpu->device);
    if (r) return mo_cuda_fail(gpu, r, err, "make its primary context");
    return mo_cuda_split(gpu, err);
}

/* Stream priorities and memory, which need a context. */
static int read_context(struct mo_cuda_gpu *gpu, moire_error *err) {
    const struct mo_gpu_system *s = gpu->system;
    int least = 0, greatest = 0;
    size_t left = 0, total = 0;
    int rc = mo_cuda_enter(gpu, NULL, err);
    if (rc) return rc;
    unsigned r = s->cu.priorities(&least, &greatest);
    if (!r) r = s->cu.memory_info(&left, &total);
    mo_cuda_leave(gpu, NULL);
    if (r) return mo_cuda_fail(gpu, r, err, "ask for priorities and memory");
    gpu->priorities[0] = greatest;
    gpu->priorities[1] = (least + greatest) / 2;
    gpu->priorities[2] = least;
    gpu->info.memory_total = (int64_t)total;
    gpu->info.memory_free = (int64_t)left;
    gpu->limit = s->config.memory && s->config.memory < (int64_t)left ? s->config.memory : (int64_t)left;
    return rc;
}

static int open_gpu(struct mo_cuda_gpu *gpu, moire_error *err) {
    int rc = read_info(gpu, err);
    if (!rc) rc = open_green(gpu, err);
    if (!rc) rc = read_context(gpu, err);
    return rc;
}

static void close_gpu(struct mo_cuda_gpu *gpu) {
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    mo_cuda_programs_close(gpu);
    mo_cuda_contexts_free(gpu);
    if (!gpu->main || mo_cuda_alive(gpu, NULL)) return;
    if (gpu->probe && !mo_cuda_enter(gpu, NULL, NULL)) {
        cu->library_unload(gpu->probe);
        mo_cuda_leave(gpu, NULL);
    }
    cu->primary_release(gpu->device);
}

static int open_driver(struct mo_gpu_system *s, int *n, moire_error *err) {
    int rc = mo_cuda_driver_open(&s->driver, s->env, s->config.path, &s->cu, err);
    if (rc) return rc;
    unsigned r = s->cu.init(0);
    if (r) return mo_cuda_error(&s->cu, r, err, "start the NVIDIA driver");
    if ((r = s->cu.driver_version(&s->level)))
        return mo_cuda_error(&s->cu, r, err, "ask for the driver's level");
    if ((r = s->cu.device_count(n))) return mo_cuda_error(&s->cu, r, err, "count GPUs");
    if (*n < 1) return mo_fail(err, MOIRE_EUNSUPPORTED, "the NVIDIA driver is there, but no GPU");
    if (*n > MO_GPU_MAX) *n = MO_GPU_MAX;
    return MOIRE_OK;
}

static int fill(struct mo_gpu_system *s, moire_error *err) {
    int n = 0, rc = open_driver(s, &n, err);
    if (rc) return rc;
    s->gpus = mo_alloc(s->env, (size_t)n * sizeof *s->gpus);
    if (!s->gpus) return mo_fail(err, MOIRE_ENOMEM, "no host memory for %d GPUs", n);
    for (int i = 0; i < n; i++) {
        s->gpus[i].system = s;
        s->gpus[i].index = i;
        s->n_gpus = i + 1;
        if ((rc = open_gpu(&s->gpus[i], err))) return rc;
    }
    mo_cuda_nvml_open(s);
    return mo_cuda_watch_start(s, err);
}

int mo_cuda_open(const struct mo_gpu_config *config, struct mo_gpu_system **out, moire_error *err) {
    if (!config->env) return mo_fail(err, MOIRE_EINVAL, "a GPU system needs an environment");
    if (config->queue < 0 || config->queue > MO_CUDA_QUEUE_MOST || config->hang_ns < 0 || config->memory < 0)
        return mo_fail(err, MOIRE_EINVAL,
                       "a number of the GPU configuration is out of range (at most %d runs on a let)",
                       MO_CUDA_QUEUE_MOST);
    struct mo_gpu_system *s = mo_alloc(config->env, sizeof *s);
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "no host memory for the GPUs");
    if (config->path && strlen(config->path) >= sizeof s->path) {
        mo_free(config->env, s);
        return mo_fail(err, MOIRE_ELIMIT, "the folders of the GPU's libraries take more than %zu bytes",
                       sizeof s->path - 1);
    }
    s->env = config->env;
    s->config = *config;
    if (config->path) {
        snprintf(s->path, sizeof s->path, "%s", config->path);
        s->config.path = s->path;
    }
    if (config->cache) {
        snprintf(s->cache, sizeof s->cache, "%s", config->cache);
        s->config.cache = s->cache;
    }
    if (!s->config.queue) s->config.queue = DEFAULT_QUEUE;
    if (!s->config.hang_ns) s->config.hang_ns = default_hang_ns;
    const int rc = fill(s, err);
    if (rc) {
        mo_cuda_close(s);
        return rc;
    }
    *out = s;
    return MOIRE_OK;
}

void mo_cuda_close(struct mo_gpu_system *s) {
    if (!s) return;
    mo_cuda_watch_stop(s);
    for (int i = 0; i < s->n_gpus; i++)
        close_gpu(&s->gpus[i]);
    mo_cuda_nvml_close(s);
    mo_free(s->env, s->gpus);
    mo_cuda_object_close(&s->driver);
    mo_free(s->env, s);
}

struct mo_cuda_gpu *mo_cuda_gpu_of(struct mo_gpu_system *s, int index, moire_error *err) {
    if (index >= 0 && index < s->n_gpus) return &s->gpus[index];
    mo_fail(err, MOIRE_EINVAL, "there is no GPU %d; there are 0 to %d", index, s->n_gpus - 1);
    return NULL;
}

static int count(const struct mo_gpu_system *s) {
    return s->n_gpus;
}

static int describe(struct mo_gpu_system *s, int index, struct mo_gpu_info *out, moire_error *err) {
    const struct mo_cuda_gpu *gpu = mo_cuda_gpu_of(s, index, err);
    if (!gpu) return MOIRE_EINVAL;
    *out = gpu->info;
    return MOIRE_OK;
}

__attribute__((visibility("default"))) mo_gpu_plugin_function mo_gpu_plugin;

const struct mo_gpu_ops *mo_gpu_plugin(void) {
    static const struct mo_gpu_ops table = {
        .abi = MO_GPU_ABI,
        .env_bytes = sizeof(struct mo_env) + sizeof(struct mo_sys),
        .name = "cuda",
        .open = mo_cuda_open,
        .close = mo_cuda_close,
        .count = count,
        .describe = describe,
        .counters = mo_cuda_counters,
        .let_open = mo_cuda_let_open,
        .let_close = mo_cuda_let_close,
        .let_probe = mo_cuda_let_probe,
        .program_load = mo_cuda_program_load,
        .program_unload = mo_cuda_program_unload,
        .program_bytes = mo_cuda_program_bytes,
        .prepare = mo_cuda_prepare,
        .program_ways = mo_cuda_program_ways,
        .run = mo_cuda_run,
        .staging_alloc = mo_cuda_staging_alloc,
        .staging_free = mo_cuda_staging_free,
        .staging_register = mo_cuda_staging_register,
        .staging_forget = mo_cuda_staging_forget,
    };
    return &table;
}
