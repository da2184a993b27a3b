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

int mo_ocr_decode(struct mo_region *region, const struct mo_ocr_dictionary *dictionary,
                  const moire_tensor *probabilities, const char **text, double *score, moire_error *err) {
    const moire_tensor *t = probabilities;
    if (t->dtype != MOIRE_F32 || t->rank != 3 || t->shape[0] != 1 || t->shape[2] != dictionary->n)
        return mo_fail(err, MOIRE_ESHAPE, "recogniser: the output is not [1,steps,%d], one class a character",
                       dictionary->n);
    size_t steps = (size_t)t->shape[1], used = 0, longest = 1;
    for (int i = 0; i < dictionary->n; i++)
        if (strlen(dictionary->text[i]) > longest) longest = strlen(dictionary->text[i]);
    char *out = mo_region_array(region, steps + 1, longest);
    if (!out) return mo_fail(err, MOIRE_ENOMEM, "recogniser: out of memory");
    double sum = 0;
    int previous = 0, n = 0;
    for (size_t i = 0; i < steps; i++) {
        const float *p = (const float *)t->data + i * (size_t)dictionary->n;
        int c = best_class(p, dictionary->n);
        if (c && (!i || c != previous)) {
            size_t size = strlen(dictionary->text[c]);
            memcpy(out + used, dictionary->text[c], size);
            used += size;
            sum += (double)p[c];
            n++;
        }
        previous = c;
    }
    out[used] = 0;
    *text = out;
    *score = n ? sum / n : 0;
    return MOIRE_OK;
}
