// The target of files of executables: container, what it says of itself, execution, program, state.
#include <cstring>
#include <map>
#include <stdexcept>

#include "ir/text.hpp"
#include "ops/all_ops.hpp"
#include "program/program.hpp"
#include "storage/about.hpp"
#include "storage/container.hpp"
#include "storage/safetensors.hpp"
#include "support/error.hpp"
#include "targets.hpp"

namespace poptorch::fuzz {
namespace {

using storage::Container;

void require(bool law, const char* text) {
  if (!law) throw std::logic_error(text);
}

// Every byte of every tensor lies in the section.
void read_state(std::string_view bytes) {
  unsigned sum = 0;
  for (const storage::TensorPlace& place : storage::read_safetensors(bytes, "fuzz")) {
    require(!place.type.bytes() ||
                place.offset + static_cast<size_t>(place.type.bytes()) <= bytes.size(),
            "a tensor ends after the end of the data");
    for (int64_t i = 0; i < place.type.bytes(); ++i) {
      sum += static_cast<unsigned char>(bytes[place.offset + static_cast<size_t>(i)]);
    }
  }
  require(sum != ~0u, "sums are small");
}

void read_about(std::string_view text) {
  const storage::About about = storage::about_of(text, "fuzz");
  const storage::About again = storage::about_of(storage::json_of(about), "again");
  require(again.random_state == about.random_state,
          "what a file says of itself is written as read");
}

// Whether the section is there and what reads it takes it.
bool takes(const Container& file, const char* section, void (*read)(std::string_view)) {
  if (!file.has(section)) return false;
  try {
    read(file.read(section));
    return true;
  } catch (const support::UserError&) {
    return false;
  }
}

void read_execution(std::string_view text) { ir::parse(text, ops::registry(), "fuzz"); }

}  // namespace

Reached fuzz_executable(std::string_view bytes) {
  try {
    const Container file(bytes, "fuzz");
    const bool about = takes(file, "about", read_about), state = takes(file, "state", read_state);
    const bool execution = takes(file, "execution", read_execution);
    const Reached program =
        file.has("program") ? fuzz_program(file.read("program")) : Reached::kNothing;
    return about && state && execution ? program : Reached::kNothing;
  } catch (const support::UserError&) {
    return Reached::kNothing;
  }
}

namespace {

// After libFuzzer's cuts a file is no longer a container, so its table is written again.
struct Part {
  std::string name, bytes;
};

constexpr size_t kRow = 64, kHead = 16, kDigest = sizeof(storage::Digest);

template <typename T>
T number_at(std::string_view bytes, size_t place) {
  T value{};
  if (place + sizeof value <= bytes.size()) {
    std::memcpy(&value, bytes.data() + place, sizeof value);
  }
  return value;
}

std::vector<Part> parts_of(std::string_view bytes) {
  std::vector<Part> parts;
  const size_t count = number_at<uint32_t>(bytes, 12) % (storage::kMaxSections + 1);
  for (size_t i = 0; i < count && kHead + (i + 1) * kRow <= bytes.size(); ++i) {
    const std::string_view row = bytes.substr(kHead + i * kRow, kRow);
    const auto offset = std::min<uint64_t>(number_at<uint64_t>(row, 16), bytes.size());
    const auto length = std::min<uint64_t>(number_at<uint64_t>(row, 24), bytes.size() - offset);
    parts.push_back({std::string(row.substr(0, 16)), std::string(bytes.substr(offset, length))});
  }
  return parts;
}

std::string whole(const std::vector<Part>& parts) {
  std::string head("POPTORCH"), body;
  const auto add = [&head](const auto& value) {
    head.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto aligned = [](size_t place) {
    return (place + storage::kAlignment - 1) / storage::kAlignment * storage::kAlignment;
  };
  add(storage::kFormatVersion);
  add(static_cast<uint32_t>(parts.size()));
  const size_t first = kHead + parts.size() * kRow + kDigest;
  for (const Part& part : parts) {
    body.append(aligned(first + body.size()) - first - body.size(), '\0');
    head += part.name;
    add(uint64_t{first + body.size()});
    add(uint64_t{part.bytes.size()});
    add(storage::digest_of(part.bytes));
    head.append(16, '\0');
    body += part.bytes;
  }
  add(storage::digest_of(head));
  return head + body;
}

}  // namespace

std::string mutated_executable(std::string_view bytes, uint64_t seed) {
  std::vector<Part> parts = parts_of(bytes);
  if (parts.empty()) return std::string(bytes);
  uint64_t choice = seed / 2;
  Part& part = parts[choice % parts.size()];
  choice /= parts.size();
  if (part.name.starts_with("state") && part.bytes.size() > 8 && choice % 4 != 0) {
    // The header's length follows it, so that what it says is reached.
    const auto length = std::min<uint64_t>(number_at<uint64_t>(part.bytes, 0),
                                           part.bytes.size() - sizeof(uint64_t));
    const std::string header = mutated(std::string_view(part.bytes).substr(8, length), seed);
    const uint64_t now = header.size();
    part.bytes = std::string(reinterpret_cast<const char*>(&now), sizeof now) + header +
                 part.bytes.substr(8 + length);
  } else if (choice % 16 == 1) {
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(choice / 16 % parts.size()));
  } else {
    part.bytes = mutated(part.bytes, seed);
  }
  return whole(parts);
}

}  // namespace poptorch::fuzz
