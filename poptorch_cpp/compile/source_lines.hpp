// The user's source lines in a cached program. A model that has moved in its file, or to another
// file, has the same program except for these lines.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compile/compiled.hpp"
#include "storage/about.hpp"

namespace poptorch::compile {

using storage::SourceLines;

SourceLines source_lines(const ir::Module& traced);

// Replaces each line of `before` (the compiled module's) in `forms` by the line of the same op in
// `now`. UserError if the modules have different numbers of ops.
void take_source_lines(Compiled& forms, const SourceLines& before, const SourceLines& now);

}  // namespace poptorch::compile
