#include "storage/about.hpp"

#include <nlohmann/json.hpp>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::storage {

using Json = nlohmann::ordered_json;

namespace {

[[noreturn]] void refuse(const std::string& origin) {
  throw support::UserError(support::str(
      "[file] '", origin, "' is damaged: its description is incomplete. Write it again."));
}

}  // namespace

std::string json_of(const About& about) {
  Json json = {{"version", about.version}, {"highest_ipu", about.highest_ipu}};
  if (!about.input_names.empty()) json["inputs"] = about.input_names;
  if (!about.key.empty()) json["key"] = about.key;
  if (!about.lines.empty()) json["lines"] = about.lines;
  if (about.random_state) {
    json["random_state"] = {about.random_state->first, about.random_state->second};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

About about_of(std::string_view text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    About about;
    json.at("version").get_to(about.version);
    json.at("highest_ipu").get_to(about.highest_ipu);
    about.key = json.value("key", "");
    about.lines = json.value("lines", about.lines);
    about.input_names = json.value("inputs", about.input_names);
    if (json.contains("random_state")) {
      const auto& state = json.at("random_state");
      if (!state.at(0).is_number_unsigned() || !state.at(1).is_number_unsigned()) refuse(origin);
      about.random_state = {state.at(0).get<uint64_t>(), state.at(1).get<uint64_t>()};
    }
    return about;
  } catch (const Json::exception&) {
    refuse(origin);
  }
}

}  // namespace poptorch::storage
