# Everything a Binade CMakeLists.txt may say beyond plain CMake.

# binade_library(<name> SOURCES ... [LINKS ...])
#
# One library per folder that uses MLIR. LINKS names Binade libraries only. A
# target that links such a library also links the shared libMLIR and libLLVM,
# unless its property BINADE_STATIC_LLVM is set (see binade_tool).
function(binade_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} SYSTEM PUBLIC
    $<BUILD_INTERFACE:${LLVM_INCLUDE_DIRS}>
    $<BUILD_INTERFACE:${MLIR_INCLUDE_DIRS}>)
  target_compile_definitions(${name} PUBLIC ${BINADE_LLVM_DEFINITIONS})
  set(isStatic $<BOOL:$<TARGET_PROPERTY:BINADE_STATIC_LLVM>>)
  target_link_libraries(${name} PUBLIC ${ARG_LINKS}
    $<$<NOT:${isStatic}>:MLIR> $<$<NOT:${isStatic}>:LLVM>)
  add_dependencies(${name} binade-headers)
  binade_precompile(${name} library)
  binade_combine(${name} ${ARG_SOURCES})
  binade_export(${name})
  get_target_property(export_name ${name} EXPORT_NAME)
  set_property(GLOBAL APPEND PROPERTY BINADE_MLIR_LIBRARIES ${export_name})
endfunction()

# binade_plain_library(<name> SOURCES ... [LINKS ...])
#
# A library that a machine without LLVM can run: no MLIR, no LLVM.
function(binade_plain_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  binade_precompile(${name} plain-library nlohmann_json::nlohmann_json)
  binade_combine(${name} ${ARG_SOURCES})
  binade_export(${name})
endfunction()

# Makes <name>, which is Binade<Folder>, part of find_package(Binade), as
# Binade::<Folder>.
function(binade_export name)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  string(REGEX REPLACE "^Binade" "" export_name ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${export_name})
  install(TARGETS ${name} EXPORT BinadeTargets)
endfunction()

# binade_combine(<name> <source>...)
#
# Where CMAKE_UNITY_BUILD is on, compiles files of the same folder together, up to
# twenty at a time: parsing LLVM's headers takes most of the time of a file. Names that
# are local to a file have to be unique in its folder.
function(binade_combine name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND files_${folder} ${source})
    list(LENGTH files_${folder} count)
    math(EXPR group "(${count} - 1) / 20")
    set_source_files_properties(${source} PROPERTIES
      UNITY_GROUP "${folder}${group}")
  endforeach()
endfunction()

# binade_precompile(<name> <kind> [<library>...])
#
# The headers that nearly every file includes take longer to parse than the
# file: cmake/Precompiled/<kind>.h, which needs <library>..., is compiled once
# and shared by all code of that kind. A precompiled header asks for the same
# flags wherever it is used: programs are compiled as position-independent as
# libraries are. Tests by themselves take little time: a release optimizes them
# less, and builds faster. Tools it does not: of an inline function that both have
# the linker keeps the tool's, for the libraries too.
function(binade_precompile name kind)
  set(options -fPIC "SHELL:-Xclang -fno-pch-timestamp")
  if(kind MATCHES "^plain")
    # The linker drops the functions that a program does not use, and with them the
    # shared libraries that only these need.
    list(APPEND options -ffunction-sections -fdata-sections)
  endif()
  if(kind MATCHES "test$")
    list(APPEND options $<$<CONFIG:Release>:-O1>)
  endif()
  set(precompiled binade-precompiled-${kind})
  if(NOT TARGET ${precompiled})
    file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
    add_library(${precompiled} STATIC ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_compile_options(${precompiled} PRIVATE ${options})
    target_link_libraries(${precompiled} PRIVATE ${ARGN})
    target_precompile_headers(${precompiled} PRIVATE
      ${PROJECT_SOURCE_DIR}/cmake/Precompiled/${kind}.h)
    if(NOT kind MATCHES "^plain")
      target_compile_definitions(${precompiled} PRIVATE
        ${BINADE_LLVM_DEFINITIONS})
      add_dependencies(${precompiled} binade-headers)
    endif()
  endif()
  target_compile_options(${name} PRIVATE ${options})
  target_precompile_headers(${name} REUSE_FROM ${precompiled})
endfunction()

# Sets <variable> to the archives of LLVM and MLIR, and to the libraries that
# they need; to nothing if a package lacks them.
function(binade_find_archives variable)
  file(GLOB archives
    ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
  list(FILTER archives EXCLUDE REGEX "/libMLIR(CAPI|.*Test|.*Runner)")
  find_library(BINADE_Z z)
  find_library(BINADE_Z3 z3)
  # LLVM's package brings libzstd.so.1; libzstd.so is in the package of headers.
  find_library(BINADE_ZSTD NAMES zstd libzstd.so.1)
  if(archives AND BINADE_Z AND BINADE_Z3 AND BINADE_ZSTD)
    set(${variable} ${archives} -Wl,--as-needed
      ${BINADE_Z} ${BINADE_Z3} ${BINADE_ZSTD} PARENT_SCOPE)
  else()
    set(${variable} PARENT_SCOPE)
    message(STATUS "tools link the shared libMLIR: there are no archives")
  endif()
endfunction()

# binade_tool(<name> SOURCES ... LINKS ...)
#
# A program that contains LLVM and MLIR, unless BINADE_STATIC_LLVM is off.
function(binade_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} CLI11::CLI11)
  if(BINADE_LLVM_ARCHIVES)
    set_target_properties(${name} PROPERTIES BINADE_STATIC_LLVM ON)
    target_link_libraries(${name} PRIVATE ${BINADE_LLVM_ARCHIVES})
    target_link_options(${name} PRIVATE LINKER:--gc-sections)
  endif()
  binade_precompile(${name} tool CLI11::CLI11)
  binade_combine(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${LLVM_LIBRARY_DIRS}")
  install(TARGETS ${name})
  set_property(GLOBAL APPEND PROPERTY BINADE_TOOLS ${name})
endfunction()

# binade_tablegen(<file.td> <output> <flag>... [<output> <flag>...]...)
#
# Runs mlir-tblgen on one file, once per output.
function(binade_tablegen source)
  set(LLVM_TARGET_DEFINITIONS ${source})
  foreach(arg IN LISTS ARGN ITEMS end)
    if(arg MATCHES "^-")
      list(APPEND flags ${arg})
      continue()
    endif()
    if(output)
      mlir_tablegen(${output} ${flags})
    endif()
    set(output ${arg})
    set(flags)
  endforeach()
  string(MAKE_C_IDENTIFIER "${CMAKE_CURRENT_SOURCE_DIR}/${source}" id)
  add_public_tablegen_target(tablegen_${id})
  add_dependencies(binade-headers tablegen_${id})
endfunction()

# binade_doc(<file.td> <page.md> <generator> ...)
#
# `ninja binade-doc` regenerates docs/generated/<page.md>.
function(binade_doc source page)
  set(LLVM_TARGET_DEFINITIONS ${source})
  mlir_tablegen(${page} ${ARGN})
  binade_page(${CMAKE_CURRENT_BINARY_DIR}/${page})
endfunction()

# binade_page(<file>)
#
# Makes a generated file a page of docs/generated. It is built with everything
# else, so that a test can tell whether the copy in the repository is fresh.
function(binade_page file)
  get_filename_component(page ${file} NAME)
  add_custom_target(binade-page-${page} ALL DEPENDS ${file})
  add_custom_target(binade-doc-${page}
    COMMAND ${CMAKE_COMMAND} -E copy_if_different
            ${file} ${PROJECT_SOURCE_DIR}/docs/generated/${page}
    DEPENDS binade-page-${page})
  add_dependencies(binade-doc binade-doc-${page})
  add_dependencies(binade-tests binade-page-${page})
  set_property(GLOBAL APPEND PROPERTY BINADE_PAGES ${file})
endfunction()

# binade_embed(<library> <variable> <file>...)
#
# Compiles data files into <library> as `<variable>()`, a list of
# (file name, text): what users read and copy is what the compiler reads. The
# function is in the namespace mlir::binade, unless <variable> names another.
function(binade_embed library variable)
  string(REGEX REPLACE ".*:" "" name ${variable})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/utils/embed.py
            ${variable} ${output} ${ARGN}
    DEPENDS ${PROJECT_SOURCE_DIR}/utils/embed.py ${ARGN}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  target_sources(${library} PRIVATE ${output})
endfunction()

# binade_unittest(<name> SOURCES ... [LINKS ...])
#
# One GoogleTest program per folder, in <build>/unittests; its name ends with
# Tests. `binade-tests` builds all of them, `check-binade-unit` runs them; files
# in Inputs/ are found through BINADE_TEST_INPUTS.
function(binade_unittest name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest_main)
  get_property(mlir GLOBAL PROPERTY BINADE_MLIR_LIBRARIES)
  set(kind plain-test)
  foreach(library IN LISTS ARG_LINKS)
    string(REGEX REPLACE "^Binade" "" library ${library})
    if(library IN_LIST mlir)
      set(kind test)
    endif()
  endforeach()
  binade_precompile(${name} ${kind} GTest::gtest
    nlohmann_json::nlohmann_json)
  target_compile_definitions(${name} PRIVATE
    BINADE_TEST_INPUTS="${CMAKE_CURRENT_SOURCE_DIR}/Inputs"
    BINADE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unittests)
  add_custom_target(check-${name}
    COMMAND ${name} --gtest_brief=1 --gtest_filter=-*Nightly*
    DEPENDS ${name} USES_TERMINAL VERBATIM)
  add_dependencies(check-binade-unit check-${name})
  add_dependencies(binade-tests ${name})
endfunction()
