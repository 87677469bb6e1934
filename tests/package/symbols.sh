#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libstiletto exports only names of namespace stiletto; weak instantiations of the standard library's
# templates and the type information of functions on built-in types are excepted, and so is the variable that
# cudnn-frontend's headers declare for its user to define. The kernels compiled for AVX2 and AVX-512 define no weak function at all: the
# linker could choose such a copy for the whole library, and an older processor would stop at it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Mangled names: `8stiletto` stands for the namespace; St, Sa, Ss ... and __gnu_cxx for the standard library.
foreign="$("$NM" -D --defined-only "$LIBRARY" | awk '
  $3 ~ /8stiletto/ || $3 ~ /^(__bss_start|_edata|_end|_init|_fini)$/ { next }
  $3 == "_ZN14cudnn_frontend14cudnn_dlhandleE" { next }
  $2 == "V" && $3 ~ /^_ZT[IS]P?F[a-zP]+E$/ { next }
  $2 ~ /^[WVu]$/ && $3 ~ /^_Z(T[ISV]|GV|Z)*N?V?K?(St|S[abdios]|9__gnu_cxx)/ { next }
  { print $2, $3 }' | c++filt)"
if [ -n "$foreign" ]; then
  printf '%s\n' "$foreign"
  fail "libstiletto exports the names above, which are not stiletto's"
fi
# Counted, not searched: grep -q would leave nm writing to a closed pipe.
ours="$("$NM" -D --defined-only "$LIBRARY" | grep -c 8stiletto || true)"
if [ "$ours" -eq 0 ]; then fail "libstiletto exports nothing of stiletto"; fi

while IFS= read -r object; do
  weak="$("$NM" --defined-only "$object" | grep -E ' [WVu] ' | grep -vE ' V DW\.ref\.' | c++filt || true)"
  if [ -n "$weak" ]; then
    printf '%s\n' "$weak"
    fail "$(basename "$object") defines the weak names above; give them internal linkage (an unnamed namespace) or do without them"
  fi
done < <(find "$BUILD/CMakeFiles/stiletto_objects.dir" \( -name '*kernels_avx2.cpp.o' -o -name '*kernels_avx512.cpp.o' \))
