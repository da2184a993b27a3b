/* SPDX-License-Identifier: Apache-2.0
 * fuzz_files.c - libFuzzer target: any bytes as a NumPy file, as a PPM image, and as a detector's map.
 * What is accepted must be whole and usable; what is refused must say why. */
#include <stdlib.h>
#include <string.h>
#include "models/ocr.h"
#include "runtime/graph/graph.h"
#include "tests/fuzz/memory_file.h"
#include "tools/moire/verify/npy.h"

static void read_npy(const struct mo_env *env) {
    moire_tensor t;
    moire_error err = {0};
    if (mo_npy_read(env, "x.npy", &t, &err)) {
        if (!strstr(err.message, "x.npy")) abort();
        return;
    }
    struct mo_shape shape = {.rank = t.rank};
    memcpy(shape.d, t.shape, sizeof shape.d);
    if ((size_t)mo_shape_count(&shape) * mo_dtype_bytes(t.dtype) != t.bytes) abort();
    mo_free(env, t.data);
}

static void read_image(const struct mo_env *env) {
    struct mo_region *region = mo_region_create(env);
    struct mo_image image, small;
    moire_error err = {0};
    if (region && !mo_image_read(env, region, "x.ppm", &image, &err)) {
        struct mo_quad box = {{{0, 0}, {image.w, 1}, {image.w - 1, image.h}, {1, image.h - 1}}};
        if (mo_image_resize(region, &image, 9, 5, &small)) abort();
        if (image.w * image.h < 4096) mo_image_crop(region, &image, &box, &small);
    } else if (region && !err.message[0]) {
        abort();
    }
    mo_region_destroy(region);
}

static void find_boxes(const struct mo_env *env, const uint8_t *bytes, size_t n) {
    struct mo_region *region = mo_region_create(env);
    size_t w = n > 2 ? bytes[0] % 40 + 1u : 1, h = n > w ? (n - 1) / w : 0;
    float *p = h && region ? mo_region_array(region, w * h, sizeof *p) : NULL;
    moire_tensor map = {.dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, (int64_t)h, (int64_t)w}, .data = p};
    struct mo_quad *box;
    int found;
    for (size_t i = 0; p && i < w * h; i++)
        p[i] = (float)bytes[1 + i] / 255;
    if (p && mo_ocr_boxes(region, &map, 200, 100, &box, &found, NULL)) abort();
    for (int i = 0; p && i < found; i++)
        for (int k = 0; k < 4; k++)
            if (!(box[i].p[k].x >= 0 && box[i].p[k].x < 200 && box[i].p[k].y >= 0 && box[i].p[k].y < 100))
                abort();
    mo_region_destroy(region);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    struct memory_file memory;
    struct mo_env env = memory_file_env(&memory, bytes, n);
    env.limits.tensor_bytes = 1 << 20;
    if (n && bytes[0] == 'P')
        read_image(&env);
    else if (n && bytes[0] == 0x93)
        read_npy(&env);
    else
        find_boxes(&env, bytes, n < 4000 ? n : 4000);
    return 0;
}
