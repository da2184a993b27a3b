/* SPDX-License-Identifier: Apache-2.0
 * scan.h - finds the models in a repository's folder: Triton's layout (NAME/config.pbtxt, NAME/V/model.onnx),
 * and ONNX files that lie in the folder itself, each a model of version 1 by its name without ".onnx". */
#ifndef MS_SCAN_H
#define MS_SCAN_H
#include "serve/repository/model_settings.h"
#include "serve/repository/overlay.h"

enum { MS_NAME = 128, MS_PATH = 1024, MS_VERSION = 24, MS_MODELS = 256 };

struct ms_found {
    char name[MS_NAME], version[MS_VERSION];
    char path[MS_PATH]; /* "": an ensemble, a function without a file, or faults keep it from being served */
    bool is_ensemble, is_function;
    int64_t stamp; /* changes when the model's or the configuration's file does */
};
struct ms_scan {
    struct ms_found *found; /* by name, then version, newest first */
    int n;
    struct ms_settings settings; /* of the one model that was asked for */
};

/* Whether it is digits only, at most 19 of them ("007" is 7); the number. */
bool ms_version_is_one(const char *text);
long long ms_version_number(const char *version);
/* Lists what is there (only: that model alone, with its settings; NULL: all).  Faults go to `faults`.
 * Returns: MOIRE_OK, and *out is to be closed; MOIRE_EIO: the folder cannot be read; MOIRE_ENOMEM;
 * MOIRE_ELIMIT. */
int ms_scan_open(const struct ms_source *from, const char *only, struct ms_scan *out,
                 struct ms_faults *faults, moire_error *err);
void ms_scan_close(struct ms_scan *scan);
#endif
