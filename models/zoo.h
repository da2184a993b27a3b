/* SPDX-License-Identifier: Apache-2.0
 * zoo.h - the networks of the five papers, as a table; each row can write itself as an ONNX file. */
#ifndef MO_ZOO_H
#define MO_ZOO_H
#include "models/build.h"

enum mo_weight_class { MO_LIGHT, MO_MEDIUM, MO_HEAVY };

struct mo_zoo_input {
    const char *name;
    moire_dtype dtype;
    int rank;
    int64_t shape[4]; /* with batch 1 and the sequence length for which `macs` holds */
};

struct mo_zoo_model {
    const char *name; /* also the stem of its file */
    const char *family;
    const char *paper;  /* which of the mission's systems serve it */
    const char *source; /* where params and macs come from */
    void (*build)(struct mo_build *b, const struct mo_zoo_model *model);
    int variant;   /* depth or size, read by build */
    double qos_ms; /* latency target */
    const char *qos_from;
    enum mo_weight_class cls;
    int64_t params;                /* published; running statistics of BatchNormalization not counted */
    double mmacs;                  /* published, millions of multiply-accumulates for one image or sequence */
    struct mo_zoo_input inputs[3]; /* closed by name == NULL when fewer */
};

struct mo_zoo_stats {
    int64_t params, macs;
    int nodes;
};

enum { MO_ZOO_SEED = 1 }; /* default seed */

/* The table; *n rows. */
const struct mo_zoo_model *mo_zoo_table(int *n);
const struct mo_zoo_model *mo_zoo_find(const char *name); /* NULL: no such model */
const char *mo_weight_class_name(enum mo_weight_class cls);

/* Writes the model to `path`; stats may be NULL. */
int mo_zoo_build(const struct mo_env *env, const struct mo_zoo_model *model, uint64_t seed, const char *path,
                 struct mo_zoo_stats *stats, moire_error *err);
/* Only counts: builds in memory and writes nothing. */
int mo_zoo_count(const struct mo_env *env, const struct mo_zoo_model *model, struct mo_zoo_stats *stats,
                 moire_error *err);
/* Name of the model's file in a folder of zoo files, "lenet-r2.onnx"; into out[n]. */
void mo_zoo_file(const char *name, char *out, size_t n);
/* Path of the model's file in `folder` (made when missing), built on first use; into out[n]. */
int mo_zoo_path(const struct mo_env *env, const char *name, const char *folder, char *out, size_t n,
                moire_error *err);

/* One builder function a family (family.c); `variant` of the row says which member. */
void mo_zoo_lenet(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_alexnet(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_vgg(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_squeezenet(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_googlenet(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_resnet(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_mobilenet_v1(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_mobilenet_v2(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_mnasnet(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_efficientnet(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_ssd_mobilenet(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_ssd_resnet34(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_tiny_yolo(struct mo_build *b, const struct mo_zoo_model *model);
void mo_zoo_bert(struct mo_build *b, const struct mo_zoo_model *model);

/* Backbones shared with detectors. */
struct mo_bv mo_zoo_resnet34_stages(struct mo_build *b, struct mo_bv x, int stages, int last_stride);
/* Runs the separable layers of MobileNet-v1; *mid receives the 512-channel map before the last stride. */
struct mo_bv mo_zoo_mobilenet_v1_body(struct mo_build *b, struct mo_bv x, struct mo_bv *mid);
#endif
