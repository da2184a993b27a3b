/* SPDX-License-Identifier: Apache-2.0
 * ocr_text.c - from the recogniser's probabilities to a string. */
#include <string.h>
#include "models/ocr.h"

int mo_ocr_dictionary(struct mo_region *region, const char *lines, struct mo_ocr_dictionary *out) {
    int n = 2;
    size_t length = strlen(lines);
    if (length && lines[length - 1] == '\n') length--;
    for (size_t i = 0; i < length; i++)
        n += lines[i] == '\n';
    n += length > 0;
    const char **text = mo_region_array(region, (size_t)n, sizeof *text);
    if (!text) return MOIRE_ENOMEM;
    int at = 0;
    text[at++] = "";
    for (size_t begin = 0; begin < length; at++) {
        const char *stop = memchr(lines + begin, '\n', length - begin);
        size_t size = stop ? (size_t)(stop - lines) - begin : length - begin, used = size;
        if (used && lines[begin + used - 1] == '\r') used--;
        text[at] = mo_region_string(region, lines + begin, used);
        if (!text[at]) return MOIRE_ENOMEM;
        begin += size + 1;
    }
    text[at++] = " ";
    *out = (struct mo_ocr_dictionary){.n = at, .text = text};
    return MOIRE_OK;
}

static int best_class(const float *p, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (p[i] > p[best]) best = i;
    return best;
}

void mo_ocr_best_path(const moire_tensor *t, int32_t *class, float *probability) {
    for (int64_t i = 0; i < t->shape[1]; i++) {
        const float *p = (const float *)t->data + i * t->shape[2];
        class[i] = best_class(p, (int)t->shape[2]);
        probability[i] = p[class[i]];
    }
}

/* Memory for a text of so many characters. */
static char *new_text(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                      size_t characters) {
    size_t longest = 1;
    for (int i = 0; i < dictionary->n; i++)
        if (strlen(dictionary->text[i]) > longest) longest = strlen(dictionary->text[i]);
    return mo_region_array(region, characters + 1, longest);
}

int mo_ocr_spell(struct mo_region *region, const struct mo_ocr_dictionary *dictionary, const int32_t *class,
                 const float *probability, size_t steps, const char **text, double *score, moire_error *err) {
    size_t used = 0, n = 0;
    double sum = 0;
    char *out = new_text(region, dictionary, steps);
    if (!out) return mo_fail(err, MOIRE_ENOMEM, "recogniser: out of memory");
    for (size_t i = 0; i < steps; i++) {
        const int32_t c = class[i];
        if (c < 0 || c >= dictionary->n)
            return mo_fail(err, MOIRE_ESHAPE, "recogniser: class %d of %d characters", (int)c, dictionary->n);
        if (!c || (i && c == class[i - 1])) continue;
        const size_t size = strlen(dictionary->text[c]);
        memcpy(out + used, dictionary->text[c], size);
        used += size;
        sum += (double)probability[i];
        n++;
    }
    out[used] = 0;
    *text = out;
    *score = n ? sum / (double)n : 0;
    return MOIRE_OK;
}

int mo_ocr_decode(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                  const moire_tensor *probabilities, const char **text, double *score, moire_error *err) {
    const moire_tensor *t = probabilities;
    if (t->dtype != MOIRE_F32 || t->rank != 3 || t->shape[0] != 1 || t->shape[2] != dictionary->n)
        return mo_fail(err, MOIRE_ESHAPE, "recogniser: the output is not [1,steps,%d], one class a character",
                       dictionary->n);
    const size_t steps = (size_t)t->shape[1];
    int32_t *class = mo_region_array(region, steps, sizeof *class);
    float *probability = mo_region_array(region, steps, sizeof *probability);
    if (!class || !probability) return mo_fail(err, MOIRE_ENOMEM, "recogniser: out of memory");
    mo_ocr_best_path(t, class, probability);
    return mo_ocr_spell(region, dictionary, class, probability, steps, text, score, err);
}
