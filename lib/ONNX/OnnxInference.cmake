# Builds ONNX's own inference of types and shapes from the sources in the package `onnx`.
# It covers functions and subgraphs, and defines the types of every standard op.
if(NOT EXISTS ${BINADE_ONNX_DIR}/shape_inference/implementation.cc)
  message(FATAL_ERROR "the package 'onnx' in ${BINADE_ONNX_DIR} comes without its C++ "
                      "sources; install it as a wheel: python3 -m pip install 'onnx>=1.23,<1.24'")
endif()
get_filename_component(onnx_root ${BINADE_ONNX_DIR} DIRECTORY)
set(onnx_headers ${CMAKE_CURRENT_BINARY_DIR}/onnx-headers)
# The sources include protobuf's headers from a folder `onnx`.
foreach(name onnx-ml onnx-operators-ml)
  file(CONFIGURE OUTPUT ${onnx_headers}/onnx/${name}.pb.h
       CONTENT "#include <onnx-ml.pb.h>\n")
endforeach()
add_custom_command(
  OUTPUT ${onnx_headers}/onnx/onnx-data.pb.cc ${onnx_headers}/onnx/onnx-data.pb.h
  COMMAND protobuf::protoc --cpp_out=lite:${onnx_headers} -I${onnx_root}
          onnx/onnx-data.proto
  DEPENDS ${BINADE_ONNX_DIR}/onnx-data.proto)
file(GLOB onnx_sources
  ${BINADE_ONNX_DIR}/checker.cc
  ${BINADE_ONNX_DIR}/common/*.cc
  ${BINADE_ONNX_DIR}/defs/*.cc
  ${BINADE_ONNX_DIR}/defs/*/*.cc
  ${BINADE_ONNX_DIR}/inliner/*.cc
  ${BINADE_ONNX_DIR}/shape_inference/implementation.cc
  ${BINADE_ONNX_DIR}/version_converter/*.cc)
add_library(binade-onnx-inference STATIC ${onnx_sources} InferTypes.cpp
            ${onnx_headers}/onnx/onnx-data.pb.cc)
# They instantiate templates that other files specialize.
set_source_files_properties(
  ${BINADE_ONNX_DIR}/defs/schema.cc ${BINADE_ONNX_DIR}/defs/tensor_proto_util.cc
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_target_properties(binade-onnx-inference PROPERTIES
  UNITY_BUILD_BATCH_SIZE 10
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
# The sources throw exceptions for invalid nodes; InferTypes.cpp catches them.
target_compile_options(binade-onnx-inference PRIVATE -w -O1)
target_compile_definitions(binade-onnx-inference PRIVATE
  ONNX_ML=1 ONNX_NAMESPACE=onnx ONNX_USE_LITE_PROTO=1 __ONNX_NO_DOC_STRINGS)
target_include_directories(binade-onnx-inference SYSTEM PRIVATE
  ${onnx_headers} ${onnx_root})
target_include_directories(binade-onnx-inference PRIVATE
  ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(binade-onnx-inference PRIVATE
  binade-onnx-proto protobuf::libprotobuf-lite)
install(TARGETS binade-onnx-inference EXPORT BinadeTargets)
