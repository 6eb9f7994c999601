# Embeds files into a library, so that the program needs no data folder.
#
# fettle_embed(TARGET <library> HEADER <folder/name.h> FUNCTION <Name> FILES ...)
# Generates <folder/name.h> in the build tree with `std::span<const EmbeddedFile> Name()`; files are
# named by their file name, or as in "name=path". EmbeddedFile is in core/embedded_file.h.
function(fettle_embed)
  cmake_parse_arguments(arg "" "TARGET;HEADER;FUNCTION" "FILES" ${ARGN})
  set(root ${CMAKE_BINARY_DIR}/embedded)
  set(header ${root}/${arg_HEADER})
  string(REGEX REPLACE "\\.h$" ".cc" source ${header})
  list(TRANSFORM arg_FILES REPLACE "^[^=]*=" "" OUTPUT_VARIABLE paths)
  add_custom_command(OUTPUT ${header} ${source}
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/cmake/embed.py ${arg_HEADER} ${arg_FUNCTION}
            ${header} ${source} ${arg_FILES}
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/embed.py VERBATIM
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  target_sources(${arg_TARGET} PRIVATE ${header} ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_include_directories(${arg_TARGET} PRIVATE ${root})
endfunction()
