// Executables that are kept in a folder, so that the same model is compiled once. An entry is
// `<key>.poptorch`, a file of executable_file.hpp without state. Its key is the digest of
// everything that determines the program: the traced module with its execution and ids, the host's
// options, disabled passes, and this build of the compiler.
//
// Processes and threads share a folder: `<key>.lock` lets one compile a key while the others wait
// for its entry. Entries are never deleted. An entry that is damaged, or belongs to another model,
// is compiled again and replaced, with a warning.
#pragma once

#include <memory>
#include <string>

#include "compile/compiled.hpp"

namespace poptorch::compile {

// Does the same as compile_to_program, or returns the program cached in options.cache_path with
// only its traced form. UserError if the folder cannot be used, or others may write to it.
Compiled compile_cached(std::unique_ptr<ir::Module> module, const HostOptions& options,
                        const Progress& progress);

std::string cache_key(const ir::Module& traced, const HostOptions& options);

}  // namespace poptorch::compile
