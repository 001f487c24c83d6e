# cmake -DGIT=<git> -DSOURCE=<directory> -DOUT=<header> -P WriteCommit.cmake
#
# Defines BINADE_COMMIT in a header; it is empty outside of a Git repository.
set(commit "")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=10 HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define BINADE_COMMIT \"${commit}\"\n")
