// SPDX-License-Identifier: Apache-2.0
// A thermometer writes a reading a minute as Observations, and all of them as a .mg file:
//
//     rust/nostd/run.sh
//     target/nostd/observation readings.mg && omsgrain verify readings.mg
#include <stdio.h>

#include "omsgrain.h"

enum { READINGS = 8 };

static int refused(int code, const char *field) {
    fprintf(stderr, "%s%s%s\n", omsgrain_code_name(code), field ? ": " : "", field ? field : "");
    return 1;
}

int main(int count, char **arguments) {
    // Celsius, as a sensor would give it.
    static const double measured[READINGS] = {21.5, 21.625, 21.75, 22, 22.5, 22.375, 22.25, 22};
    static uint8_t grains[READINGS][OMSGRAIN_MAX_GRAIN];
    static uint8_t file[OMSGRAIN_MG_SIZE(READINGS, READINGS * OMSGRAIN_MAX_GRAIN)];
    struct omsgrain_blob blobs[READINGS];
    char address[OMSGRAIN_ADDRESS_SIZE];
    size_t length;
    const char *field;
    int code;

    if (count != 2) {
        fprintf(stderr, "usage: observation FILE.mg\n");
        return 2;
    }
    for (int i = 0; i < READINGS; i++) {
        const double confidence = 0.98;
        const struct omsgrain_observation observation = {
            .observer_id = OMSGRAIN_TEXT("thermometer 4"),
            .observer_type = OMSGRAIN_TEXT("temperature"),
            .subject = OMSGRAIN_TEXT("greenhouse"),
            .value = &measured[i],
            .unit = OMSGRAIN_TEXT("Cel"),
            .confidence = &confidence,
            .namespace_ = OMSGRAIN_TEXT("plant:7"),
            .created_at = INT64_C(1768471200000) + 60000 * i,
        };
        code = omsgrain_write_observation(&observation, OMSGRAIN_MSGPACK, grains[i], sizeof grains[i], &length,
                                          &field);
        if (code) return refused(code, field);
        blobs[i].data = grains[i];
        blobs[i].length = length;
        omsgrain_address(grains[i], length, address);
        printf("%s %u bytes\n", address, (unsigned)length);
    }
    code = omsgrain_write_mg(blobs, READINGS, file, sizeof file, &length);
    if (code) return refused(code, NULL);

    FILE *out = fopen(arguments[1], "wb");
    if (!out) return perror(arguments[1]), 1;
    if (fwrite(file, 1, length, out) != length) return perror(arguments[1]), 1;
    if (fclose(out)) return perror(arguments[1]), 1;
    return 0;
}
