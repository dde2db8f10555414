// Executables that are kept in a folder, so that the same model is compiled once. An entry is
// `<key>.poptorch`, a file of executable_file.hpp without state. Its key is the digest of all that
// the program follows from: the traced module with its execution and ids, what the host
// says of it, passes that are switched off, and this build of the compiler.
//
// Processes and threads share a folder: `<key>.lock` lets one compile a key while the others wait
// for its entry. Nothing is ever taken away. An entry that is damaged, or is another's, is compiled
// anew and replaced, with a warning.
#pragma once

#include <memory>
#include <string>

#include "compile/compiled.hpp"

namespace poptorch::compile {

// As compile_to_program, or the program of the folder options.cache_path and no form but the
// traced. UserError where the folder cannot be used, or others may write to it.
Compiled compile_cached(std::unique_ptr<ir::Module> module, const HostOptions& options,
                        const Progress& progress);

std::string cache_key(const ir::Module& traced, const HostOptions& options);

}  // namespace poptorch::compile
