# `cmake --install build/release`: tools, headers, libraries, and what
# find_package(Binade) reads. Rules and policies are installed by their folders.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/binade ${PROJECT_BINARY_DIR}/include/binade
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc"
  PATTERN CMakeFiles EXCLUDE)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Binade)
install(EXPORT BinadeTargets NAMESPACE Binade:: DESTINATION ${package})
get_property(BINADE_MLIR_LIBRARIES GLOBAL PROPERTY BINADE_MLIR_LIBRARIES)
configure_package_config_file(
  cmake/BinadeConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/BinadeConfig.cmake
  INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/cmake/BinadeConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/BinadeConfig.cmake
              ${PROJECT_BINARY_DIR}/cmake/BinadeConfigVersion.cmake
  DESTINATION ${package})
