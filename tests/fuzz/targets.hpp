// The fuzzed functions, and the mutations of texts. libFuzzer calls these through main.cpp; the
// unit tests feed them the corpus and mutants of every golden text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace poptorch::fuzz {

// How far a text came before a poptorch error refused it.
enum class Reached : uint8_t { kNothing, kParsed, kVerified, kCompiled, kRun };

// Each returns when the text is refused with a poptorch error, or accepted and keeps its laws. A
// broken law, or a foreign exception on the way, leaves as std::exception.

// IR: what is parsed verifies, prints, parses back equal; compiles, within bounds of size, under
// options that the text's hash picks; its program prints and parses back; and a small one runs.
Reached fuzz_ir(std::string_view text);
// Programs: what is parsed prints, and parses back to the same text; verifying refuses or accepts.
Reached fuzz_program(std::string_view text);
// Files of executables: of a container that is taken, each section by what reads it.
Reached fuzz_executable(std::string_view bytes);

// `text` with some tokens or lines changed, removed, repeated or exchanged, by the numbers that
// follow from `seed`.
std::string mutated(std::string_view text, uint64_t seed);
// `bytes`, a container, with one section changed or taken away and its digests right again.
std::string mutated_executable(std::string_view bytes, uint64_t seed);
// A line of a module's execution, mostly a legal one.
std::string execution_line(uint64_t seed);

}  // namespace poptorch::fuzz
