// SPDX-License-Identifier: Apache-2.0
// Writes the grain of each line that vectors.py prints and compares, in four threads at once. Says how
// much stack a grain takes.
#define _GNU_SOURCE // pthread_attr_setstack
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "omsgrain.h"

enum { COLUMNS = 16, THREADS = 4, STACK = 1 << 18, PAINT = 0xa5 };

struct grain {
    struct omsgrain_observation fields;
    double value, confidence;
    int is_belief, encoding, code;
    size_t room;
    const char *field;                // or null
    struct omsgrain_text hex, address; // of the blob that is expected
};

static struct grain *grains;
static size_t count;

static void out_of_memory(const void *got) {
    if (!got) exit(2);
}

static struct omsgrain_text unhex(const char *hex) {
    struct omsgrain_text text = {NULL, strlen(hex) / 2};
    if (!strcmp(hex, "-")) return text;
    char *data = malloc(text.length + 1); // exactly as long, for the sanitizer
    out_of_memory(data);
    for (size_t i = 0; i < text.length; i++) {
        unsigned byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        data[i] = (char)byte;
    }
    text.data = data;
    return text;
}

static char *copy(const char *text) {
    char *out = malloc(strlen(text) + 1);
    out_of_memory(out);
    return strcpy(out, text);
}

static int read_grain(char *line, struct grain *grain) {
    char *at[COLUMNS] = {0};
    for (int i = 0; i < COLUMNS; i++) {
        at[i] = line;
        line += strcspn(line, "\t\n");
        if (!*line) return 0;
        *line++ = 0;
    }
    memset(grain, 0, sizeof *grain);
    grain->is_belief = !strcmp(at[0], "belief");
    grain->encoding = atoi(at[1]);
    grain->room = (size_t)atoi(at[2]);
    struct omsgrain_text *texts[] = {&grain->fields.observer_id, &grain->fields.observer_type,
                                     &grain->fields.subject,     &grain->fields.relation,
                                     &grain->fields.object,      &grain->fields.unit,
                                     &grain->fields.namespace_};
    for (int i = 0; i < 7; i++) *texts[i] = unhex(at[3 + i]);
    grain->value = strtod(at[10], NULL);
    grain->confidence = strtod(at[11], NULL);
    grain->fields.value = strcmp(at[10], "-") ? &grain->value : NULL;
    grain->fields.confidence = strcmp(at[11], "-") ? &grain->confidence : NULL;
    grain->fields.created_at = strtoll(at[12], NULL, 10);
    grain->code = atoi(at[13]);
    if (grain->code) {
        grain->field = strcmp(at[15], "-") ? copy(at[15]) : NULL;
        return !strcmp(omsgrain_code_name(grain->code), at[14]);
    }
    grain->hex.data = copy(at[14]);
    grain->address.data = copy(at[15]);
    grain->address.length = strlen(at[15]);
    return 1;
}

static int write_grain(const struct grain *grain, uint8_t *out, size_t *length, const char **field) {
    if (!grain->is_belief)
        return omsgrain_write_observation(&grain->fields, grain->encoding, out, grain->room, length, field);
    struct omsgrain_belief belief = {grain->fields.subject,    grain->fields.relation,
                                     grain->fields.object,     grain->fields.value,
                                     grain->fields.unit,       grain->fields.confidence,
                                     grain->fields.namespace_, grain->fields.created_at};
    return omsgrain_write_belief(&belief, grain->encoding, out, grain->room, length, field);
}

static int agrees(const struct grain *grain) {
    char hex[2 * OMSGRAIN_MAX_GRAIN + 1] = "", address[OMSGRAIN_ADDRESS_SIZE];
    const char *field = "unset";
    size_t length = 1;
    uint8_t *out = malloc(grain->room);
    out_of_memory(out);
    int code = write_grain(grain, out, &length, &field), good = code == grain->code;
    if (code) {
        // encode() in Python does not place every error, so a field may be named only here.
        good &= length == 0 && (!grain->field || (field && !strcmp(field, grain->field)));
    } else if (good) {
        for (size_t i = 0; i < length; i++) sprintf(hex + 2 * i, "%02x", out[i]);
        good &= !field && !strcmp(hex, grain->hex.data);
        good &= omsgrain_address(out, length, address) == OMSGRAIN_OK;
        good &= !strcmp(address, grain->address.data);
        good &= omsgrain_check_address(out, length, grain->address) == OMSGRAIN_OK;
        out[length - 1] ^= 1;
        good &= omsgrain_check_address(out, length, grain->address) == OMSGRAIN_ERR_INTEGRITY;
    }
    if (!good)
        printf("wrong: %s %s %s instead of %s %s\n", omsgrain_code_name(code), hex, field ? field : "",
               omsgrain_code_name(grain->code), grain->hex.data ? grain->hex.data : grain->field);
    free(out);
    return good;
}

static void *check_all(void *wrong) {
    for (size_t i = 0; i < count; i++) *(size_t *)wrong += !agrees(&grains[i]);
    return NULL;
}

// The functions refuse what cannot be right, and write nothing.
static size_t check_edges(void) {
    struct omsgrain_text id = OMSGRAIN_TEXT("t-4");
    struct omsgrain_observation fields = {0};
    uint8_t out[OMSGRAIN_MAX_GRAIN], file[OMSGRAIN_MG_SIZE(2, 2 * OMSGRAIN_MAX_GRAIN)];
    char address[OMSGRAIN_ADDRESS_SIZE];
    size_t length = 0, wrong = 0;
    double value = 22.5;
#define EXPECT(code, call) wrong += (call) != (code) && printf("wrong: line %d\n", __LINE__)
#define WRITE(fields, out) omsgrain_write_observation(fields, OMSGRAIN_MSGPACK, out, sizeof file, &length, NULL)
    fields.observer_id = fields.observer_type = id;
    fields.value = &value;
    EXPECT(0, omsgrain_write_observation(&fields, OMSGRAIN_CBOR, out, sizeof out, &length, NULL));
    EXPECT(OMSGRAIN_ERR_SCHEMA, omsgrain_write_observation(&fields, 2, out, sizeof out, &length, NULL));
    EXPECT(OMSGRAIN_ERR_SCHEMA, omsgrain_write_observation(&fields, 0, out, sizeof out, NULL, NULL));
    EXPECT(OMSGRAIN_ERR_SCHEMA, WRITE(&fields, NULL));
    EXPECT(OMSGRAIN_ERR_SCHEMA, WRITE(NULL, file));
    fields.unit = fields.object = id;
    EXPECT(OMSGRAIN_ERR_SCHEMA, WRITE(&fields, file)); // a text and a number
    fields.value = NULL;
    EXPECT(OMSGRAIN_ERR_SCHEMA, WRITE(&fields, file)); // a unit without a number
    fields.unit = fields.object = (struct omsgrain_text){(const char *)file + 9, 3};
    EXPECT(OMSGRAIN_ERR_SCHEMA, WRITE(&fields, file)); // an overlap
    fields.object = (struct omsgrain_text){"\xff", 1};
    fields.unit.data = NULL;
    fields.unit.length = 0;
    EXPECT(OMSGRAIN_ERR_CORRUPT, WRITE(&fields, file)); // not UTF-8
    fields.object = (struct omsgrain_text){NULL, 3};
    EXPECT(OMSGRAIN_ERR_SCHEMA, WRITE(&fields, file));
    fields.object = (struct omsgrain_text){"x", SIZE_MAX};
    EXPECT(1, WRITE(&fields, file) != 0);
    fields.object = id;
    EXPECT(0, omsgrain_write_observation(&fields, 0, out, sizeof out, &length, NULL));

    EXPECT(OMSGRAIN_ERR_SCHEMA, omsgrain_address(NULL, 0, address));
    EXPECT(OMSGRAIN_ERR_SCHEMA, omsgrain_address(out, length, NULL));
    EXPECT(0, omsgrain_address(out, length, address));
    EXPECT(OMSGRAIN_ERR_HASH_LENGTH, omsgrain_check_address(out, length, (struct omsgrain_text){address, 63}));
    address[0] = 'A';
    EXPECT(OMSGRAIN_ERR_HASH_FORMAT, omsgrain_check_address(out, length, (struct omsgrain_text){address, 64}));
    EXPECT(OMSGRAIN_ERR_SCHEMA, omsgrain_check_address(out, length, (struct omsgrain_text){NULL, 64}));

    struct omsgrain_blob blobs[2] = {{out, length}, {out, length}};
    size_t size = OMSGRAIN_MG_SIZE(2, 2 * length), written = 0;
    EXPECT(0, omsgrain_write_mg(blobs, 2, file, size, &written));
    EXPECT(1, written == size);
    EXPECT(OMSGRAIN_ERR_TOO_LARGE, omsgrain_write_mg(blobs, 2, file, size - 1, &written));
    EXPECT(1, written == 0);
    EXPECT(0, omsgrain_write_mg(NULL, 0, file, sizeof file, &written));
    EXPECT(OMSGRAIN_ERR_SCHEMA, omsgrain_write_mg(NULL, 1, file, sizeof file, &written));
    EXPECT(OMSGRAIN_ERR_SCHEMA, omsgrain_write_mg(blobs, 2, out, sizeof out, &written));
    EXPECT(OMSGRAIN_ERR_TOO_LARGE, omsgrain_write_mg(blobs, SIZE_MAX / 2, file, sizeof file, &written));
    blobs[1].length = 9;
    EXPECT(OMSGRAIN_ERR_TOO_SHORT, omsgrain_write_mg(blobs, 2, file, sizeof file, &written));
    EXPECT(1, omsgrain_code_name(1) == NULL);
    return wrong;
}

static void *write_first(void *unused) {
    static uint8_t out[OMSGRAIN_MAX_GRAIN];
    size_t length;
    write_grain(&grains[0], out, &length, NULL);
    return unused;
}

static void *nothing(void *unused) { return unused; }

// The bytes of a painted stack that a thread has written to.
static size_t stack_of(void *(*work)(void *)) {
    static _Alignas(4096) unsigned char stack[STACK];
    size_t untouched = 0;
    pthread_attr_t attributes;
    pthread_t thread;
    memset(stack, PAINT, STACK);
    if (pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, STACK)) exit(2);
    if (pthread_create(&thread, &attributes, work, NULL) || pthread_join(thread, NULL)) exit(2);
    while (untouched < STACK && stack[untouched] == PAINT) untouched++;
    return STACK - untouched;
}

int main(void) {
    static char line[1 << 17];
    size_t wrong[THREADS] = {0}, all = check_edges(), room = 0;
    pthread_t threads[THREADS];
    while (fgets(line, sizeof line, stdin)) {
        if (count == room) {
            room = room ? 2 * room : 64;
            grains = realloc(grains, room * sizeof *grains);
            out_of_memory(grains);
        }
        if (!read_grain(line, &grains[count++])) return printf("not a line of vectors.py\n");
    }
    if (!count) return printf("no lines of vectors.py\n");
    for (size_t i = 0; i < count; i++) { // they have moved
        if (grains[i].fields.value) grains[i].fields.value = &grains[i].value;
        if (grains[i].fields.confidence) grains[i].fields.confidence = &grains[i].confidence;
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, check_all, &wrong[i])) exit(2);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all += wrong[i];
    }
    size_t stack = stack_of(write_first) - stack_of(nothing);
    printf("C: %zu grains in %d threads, %zu wrong; %zu bytes of stack, no heap\n", count, THREADS, all, stack);
    return all > 0;
}
