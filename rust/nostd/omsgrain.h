// SPDX-License-Identifier: Apache-2.0
// Memory grains (OMS 1.2) in C: lightweight Observations and beliefs, addresses and .mg files.
//
// The library allocates nothing, has no state and never stops the program, so any thread or
// interrupt can call it. It writes only to the buffers that you pass. Texts have a length and need
// no zero byte at their end.
//
// Each function returns 0, or the code of an error. After an error the bytes of `out` are undefined.
#ifndef OMSGRAIN_H
#define OMSGRAIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The codes of omsgrain.errors, with the exit codes of the command line.
enum omsgrain_code {
    OMSGRAIN_OK = 0,
    OMSGRAIN_ERR_TOO_SHORT = 11,
    OMSGRAIN_ERR_TOO_LARGE = 12,
    OMSGRAIN_ERR_VERSION = 13,
    OMSGRAIN_ERR_CORRUPT = 14,
    OMSGRAIN_ERR_FLOAT_INVALID = 16,
    OMSGRAIN_ERR_SCHEMA = 20,
    OMSGRAIN_ERR_EMPTY = 23,
    OMSGRAIN_ERR_RANGE = 24,
    OMSGRAIN_ERR_HASH_FORMAT = 31,
    OMSGRAIN_ERR_HASH_LENGTH = 32,
    OMSGRAIN_ERR_INTEGRITY = 33,
    OMSGRAIN_ERR_UNSUPPORTED = 71
};

// The encoding of a payload.
enum omsgrain_encoding { OMSGRAIN_MSGPACK = 0, OMSGRAIN_CBOR = 1 };

// The most bytes of a lightweight grain: a buffer of this size is always large enough.
#define OMSGRAIN_MAX_GRAIN 512

// The bytes of an address as text: 64 digits and a zero byte.
#define OMSGRAIN_ADDRESS_SIZE 65

// The size of a .mg file of `count` grains with `bytes` bytes together.
#define OMSGRAIN_MG_SIZE(count, bytes) (48 + 4 * (size_t)(count) + (size_t)(bytes))

// UTF-8. A null pointer is a field that is absent; a length of 0 is an empty text.
struct omsgrain_text {
    const char *data;
    size_t length;
};

// Initializes a text from a literal.
#define OMSGRAIN_TEXT(literal) {(literal), sizeof(literal) - 1}

// An observation of a sensor, a model or a person. Only the first two fields and the time are required.
struct omsgrain_observation {
    struct omsgrain_text observer_id;   // a sensor's serial number or path
    struct omsgrain_text observer_type; // "temperature", "lidar", or your own with a prefix: "acme:sonar"
    struct omsgrain_text subject;       // what the observation is about
    struct omsgrain_text relation;      // how subject and object are related
    struct omsgrain_text object;        // what was observed: a text,
    const double *value;                // or a number; not both
    struct omsgrain_text unit;          // the unit of `value`, if it has one
    const double *confidence;           // from 0 to 1; null if absent
    struct omsgrain_text namespace_;    // the partition that the grain belongs to
    int64_t created_at;                 // milliseconds since 1970
};

// A statement that is held to be true. Only the unit and the namespace can be absent.
struct omsgrain_belief {
    struct omsgrain_text subject;
    struct omsgrain_text relation;
    struct omsgrain_text object;
    const double *value;
    struct omsgrain_text unit;
    const double *confidence;
    struct omsgrain_text namespace_;
    int64_t created_at;
};

// The bytes of a grain.
struct omsgrain_blob {
    const uint8_t *data;
    size_t length;
};

// Writes an Observation to `out`, which has `room` bytes, and sets `length`. `encoding` is one of
// enum omsgrain_encoding. The bytes are those that
// `omsgrain.encode` gives in Python for the same fields, with `object` = {"value": ..., "unit": ...}
// for a number. `out` must not overlap the texts.
//
// `field` can be null. After an error it is the name of the field, or null if the error is not about
// a field.
//
// OMSGRAIN_ERR_SCHEMA: a required field is absent, a text and a number are given as object, a unit
// has no number, or a pointer is null. ERR_EMPTY: a required text is empty. ERR_RANGE: the confidence
// is not from 0 to 1, or the time is not from 1970 to 2106. ERR_FLOAT_INVALID: NaN or an infinity.
// ERR_CORRUPT: a text is not UTF-8, or begins with a byte order mark. ERR_UNSUPPORTED: a letter has
// more than 30 marks. ERR_TOO_LARGE: the grain is larger than `room` or 512 bytes.
int omsgrain_write_observation(const struct omsgrain_observation *observation,
                               int encoding, uint8_t *out, size_t room, size_t *length,
                               const char **field);

// Writes a belief, as omsgrain_write_observation.
int omsgrain_write_belief(const struct omsgrain_belief *belief, int encoding, uint8_t *out,
                          size_t room, size_t *length, const char **field);

// Writes the address of a grain: SHA-256 in hex, ended by a zero byte.
int omsgrain_address(const uint8_t *blob, size_t length, char out[OMSGRAIN_ADDRESS_SIZE]);

// Checks that a blob has an address, in constant time: OMSGRAIN_ERR_INTEGRITY if it has another one,
// ERR_HASH_LENGTH or ERR_HASH_FORMAT if the text is not an address.
int omsgrain_check_address(const uint8_t *blob, size_t length, struct omsgrain_text address);

// Writes a .mg file of `count` grains to `out`, in their order, and sets `length`. `out` must not
// overlap the grains. OMSGRAIN_ERR_TOO_SHORT or ERR_VERSION: the bytes are not a grain.
// ERR_TOO_LARGE: the file is larger than `room` or 4 GiB.
int omsgrain_write_mg(const struct omsgrain_blob *blobs, size_t count, uint8_t *out, size_t room,
                      size_t *length);

// The name of a code: "ERR_SCHEMA"; "OK" for 0; null for another number.
const char *omsgrain_code_name(int code);

#ifdef __cplusplus
}
#endif

#endif
