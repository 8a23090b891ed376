// The command and the order of the rows; conversion of files.
#include <nlohmann/json.hpp>

#include <sstream>

#include "command_problems.hpp"
#include "core/context.hpp"
#include "core/ordering.hpp"
#include "support/command.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

TEST_F(Command, ConvertsBothWays) {
  write("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 2.5\n2 1 -1\n2 2 0.1\n");
  for (const char* to : {"a.pbin", "b.mtx.gz", "b.mtx.xz", "b.mtx"}) {
    const Outcome o = run({"convert", "a.mtx", to});
    EXPECT_EQ(o.code, 0) << o.err;
  }
  EXPECT_EQ(run({"convert", "a.pbin", "c.mtx"}).code, 0);
  EXPECT_EQ(run({"convert", "b.mtx.xz", "d.mtx"}).code, 0);
  EXPECT_EQ(run({"convert", "b.mtx.gz", "e.mtx"}).code, 0);
  const auto left = files();
  EXPECT_EQ(left.at("b.mtx"), left.at("c.mtx"));
  EXPECT_EQ(left.at("b.mtx"), left.at("d.mtx"));
  EXPECT_EQ(left.at("b.mtx"), left.at("e.mtx"));
  write("p.yaml", "matrix: {file: a.pbin}\nsolver: {method: bicgstab}\n");
  EXPECT_EQ(run({"solve", "p.yaml"}).code, 0);
}

// The path 1 - 3 - 2 - 4 in the order of the path, and the old place of each row.
TEST_F(Command, ConvertsIntoAnOrder) {
  write("a.mtx",
        "%%MatrixMarket matrix coordinate real symmetric\n4 4 7\n1 1 11\n2 2 22\n3 3 33\n4 4 44\n3 1 13\n3 2 "
        "23\n"
        "4 2 24\n");
  const Outcome o = run({"convert", "a.mtx", "b.mtx", "--order", "rcm", "--permutation", "p.mtx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("bandwidth 2 -> 1"), std::string::npos) << o.out;
  const auto left = files();
  const std::string& p = left.at("p.mtx");
  const bool forwards = p.ends_with("1\n3\n2\n4\n");
  EXPECT_TRUE(forwards || p.ends_with("4\n2\n3\n1\n")) << p;
  const std::vector<std::string> entries =
      forwards ? std::vector<std::string>{"1 1 11", "2 1 13", "2 2 33", "4 3 24"}
               : std::vector<std::string>{"4 4 11", "4 3 13", "3 3 33", "2 1 24"};
  for (const std::string& entry : entries)
    EXPECT_NE(left.at("b.mtx").find(entry), std::string::npos) << entry << left.at("b.mtx");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--order", "rcm"},
                                                {"--permutation", "q.mtx"},
                                                {"--order", "rmc", "--permutation", "q.mtx"},
                                                {"--order", "none", "--permutation", "q.mtx"},
                                                {"--order", "auto", "--permutation", "q.mtx"},
                                                {"--order", "rcm", "--permutation", "c.mtx"}}) {
    std::vector<std::string> all{"convert", "a.mtx", "c.mtx"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run(all).code, 2) << words.back();
  }
  EXPECT_EQ(files(), left) << "nothing is written where something is refused";
  write("r.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 3 1\n");
  const Outcome rectangular = run({"convert", "r.mtx", "c.mtx", "--order", "rcm", "--permutation", "q.mtx"});
  EXPECT_EQ(rectangular.code, 2);
  EXPECT_NE(rectangular.err.find("must be square"), std::string::npos) << rectangular.err;
  EXPECT_EQ(files().size(), left.size() + 1);
}

// A file with its own right-hand side, guess and history: all in the order of the file.
TEST_F(Command, SolvesInEveryOrder) {
  std::string b = "%%MatrixMarket matrix array real general\n400 1\n";
  for (int i = 0; i < 400; ++i) b += std::to_string(i % 17) + "\n";
  write("b.mtx", b);
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 20}}\nrhs: {file: b.mtx}\ninitial_guess: {random: 3}\n"
        "solver: {relative_tolerance: 1.0e-10}\npreconditioner: {type: jacobi}\n"
        "output: {solution: x.mtx, report: r.json}\n");
  const auto numbers = [this] {
    std::istringstream text(files().at("x.mtx"));
    std::vector<double> all;
    for (std::string line; std::getline(text, line);)
      if (!line.starts_with('%')) all.push_back(std::atof(line.c_str()));
    return all;
  };
  ASSERT_EQ(run({"solve", "p.yaml"}).code, 0);
  const std::vector<double> expected = numbers();
  const Json plain = Json::parse(files().at("r.json"));
  EXPECT_FALSE(plain.contains("order"));
  for (const char* order : {"rcm", "length", "cluster", "auto"})
    for (const char* schedule :
         {"", "schedule=[{at_iteration: 3, format: sell-packed, overlapped: false}]"}) {
      SCOPED_TRACE(std::string(order) + " " + schedule);
      std::vector<std::string> words{"solve", "p.yaml", "--set", std::string("matrix.order=") + order};
      if (*schedule) words.insert(words.end(), {"--set", schedule});
      const Outcome o = run(words);
      ASSERT_EQ(o.code, 0) << o.err;
      const Json r = Json::parse(files().at("r.json"));
      EXPECT_EQ(r["order"]["order"], std::string_view(order) == "auto" ? "none" : order)
          << "auto: x is small";
      EXPECT_NEAR(r["iterations"].get<double>(), plain["iterations"].get<double>(), 2);
      EXPECT_GT(r["operator"]["products"].get<int>(), 3);
      EXPECT_EQ(r["problem"]["matrix"]["order"], order);
      const std::vector<double> x = numbers();
      ASSERT_EQ(x.size(), expected.size());
      for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], expected[i], 1e-5) << i;
    }
  const Outcome refused = run({"compare", "p.yaml", "--set", "matrix.order=rcm"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("convert --order"), std::string::npos) << refused.err;
}

// Orders in the middle of a solve: the same x and nearly the same iterations, and a report of each change.
TEST_F(Command, ChangesTheOrderInTheSolve) {
  write("p.yaml",
        "matrix: {generate: {kind: anisotropic-2d, n: 20}}\nrhs: {solution: {random: 3}}\n"
        "solver: {relative_tolerance: 1.0e-10}\npreconditioner: {type: jacobi}\noutput: {report: r.json}\n"
        "operator: {format: csr}\n"
        "schedule:\n"
        "  - {at_iteration: 3, order: rcm, overlapped: false}\n"
        "  - {at_iteration: 5, format: sell-c-sigma, order: length, overlapped: false}\n"
        "  - {at_iteration: 7, format: ell, overlapped: false}\n"
        "  - {at_iteration: 9, order: none, overlapped: false}\n");
  const Outcome o = run({"solve", "p.yaml"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("order none -> rcm"), std::string::npos) << o.out;
  const Json r = Json::parse(files().at("r.json"));
  ASSERT_EQ(r["switches"].size(), 4);
  EXPECT_EQ(r["switches"][0]["order"]["from"], "none");
  EXPECT_EQ(r["switches"][0]["order"]["to"], "rcm");
  EXPECT_GT(r["switches"][0]["order"]["seconds"], 0);
  EXPECT_EQ(r["switches"][1]["order"]["to"], "length");
  EXPECT_EQ(r["switches"][1]["to"], "sell-c-sigma");
  EXPECT_FALSE(r["switches"][2].contains("order"));
  EXPECT_EQ(r["switches"][2]["to"], "ell");
  EXPECT_EQ(r["switches"][3]["order"]["to"], "none");
  EXPECT_EQ(r["decisions"][0]["to"], "order rcm");
  EXPECT_EQ(r["problem"]["schedule"][0]["order"], "rcm");
  EXPECT_LT(r["error"]["relative"].get<double>(), 1e-6);
  ASSERT_EQ(run({"solve", "p.yaml", "--set", "schedule=[{at_iteration: 100000, format: csr}]"}).code, 0);
  const Json plain = Json::parse(files().at("r.json"));
  EXPECT_NEAR(r["iterations"].get<double>(), plain["iterations"].get<double>(), 1);
  const auto other_products = [](const Json& report) {
    return report["operator"]["products"].get<int>() - report["iterations"].get<int>();
  };
  EXPECT_EQ(other_products(r), other_products(plain)) << "those of the new orders count too";

  // A format that refuses the matrix in that order: the solve goes on without the change.
  const Outcome stays = run({"solve", "p.yaml", "--set", "operator.format=dia", "--set",
                             "schedule=[{at_iteration: 3, order: rcm, overlapped: false}]"});
  EXPECT_EQ(stays.code, 0) << stays.err;
  EXPECT_NE(stays.out.find("not to dia in order rcm (refused)"), std::string::npos) << stays.out;
  EXPECT_EQ(Json::parse(files().at("r.json"))["failed_switches"][0]["order"], "rcm");

  // Refused before anything is read: a missing ability has exit code 3, a wrong file 2.
  const auto refused = [&](const std::string& schedule, int code, const std::string& text,
                           std::vector<std::string> more = {}) {
    std::vector<std::string> words{"solve", "p.yaml", "--set", "schedule=" + schedule};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
  };
  refused("[{at_iteration: 3, order: rmc}]", 2, "rcm");
  for (const OrderingEntry& entry : orderings()) {
    if (entry.unavailable.empty()) continue;
    const std::string id(entry.id);
    refused("[{at_iteration: 3, order: " + id + "}]", 3, "schedule[0].order: order " + id,
            {"--set", "matrix={file: missing.mtx}"});
    refused("[]", 3, "matrix.order: order " + id, {"--set", "matrix={file: missing.mtx, order: " + id + "}"});
  }
  refused("[{at_iteration: 3}]", 2, "'format' or 'order'");
  refused("[{at_iteration: 3, order: rcm, kernel: native}]", 2, "add the key 'format'");
}

}  // namespace
}  // namespace protean::test
