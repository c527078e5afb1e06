// Loaded in front of bochscpu, whose wheel was linked against a newer glibc than its tag says, and which has no way to
// choose a processor: where it makes its usual one, without bf16, it is handed a Sapphire Rapids.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

unsigned long long __isoc23_strtoull(const char *text, char **end, int base) { return strtoull(text, end, base); }

int __isoc23_sscanf(const char *text, const char *format, ...) {
    va_list places;
    va_start(places, format);
    const int found = vsscanf(text, format, places);
    va_end(places);
    return found;
}

void *_Z23create_corei3_cnl_cpuidP8BX_CPU_C(void *cpu) {
    void *(*create)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "_Z28create_sapphire_rapids_cpuidP8BX_CPU_C");
    if (create) return create(cpu);
    fputs("emulate: this bochscpu has no Sapphire Rapids\n", stderr);
    exit(2);
}
