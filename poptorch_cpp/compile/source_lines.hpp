// The lines of the user's source in a program that was kept: a model that has moved in its file, or
// to another, has the same program but for these.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compile/compiled.hpp"
#include "storage/about.hpp"

namespace poptorch::compile {

using storage::SourceLines;

SourceLines source_lines(const ir::Module& traced);

// What in `forms` names a line of `before`, those of the module that was compiled, names that of
// the same op in `now`. UserError where the modules have not as many ops.
void take_source_lines(Compiled& forms, const SourceLines& before, const SourceLines& now);

}  // namespace poptorch::compile
