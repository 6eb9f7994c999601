// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_server.h"

#include <array>
#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <thread>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <fmt/format.h>
#include <pthread.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Tls = beast::ssl_stream<beast::tcp_stream>;

constexpr char kBeat[] = ":\n\n";
constexpr std::chrono::seconds kLinger{2};
// A client that does not read loses the stream; it comes back with the last sequence it saw.
constexpr std::size_t kMaxStreamBacklogBytes = 8U << 20;

class Connection;

// What the connections of one server share. They keep it alive.
struct Shared {
  HttpServerOptions options;
  HttpHandler* handler = nullptr;
  asio::io_context io{1};
  std::map<Connection*, std::weak_ptr<Connection>> open;  // Of the thread.
  std::atomic<std::size_t> count{0};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  virtual void Begin() = 0;
  virtual void Abort() = 0;
};

HttpRequest ToRequest(const http::request_header<>& head) {
  HttpRequest request;
  request.method = std::string(head.method_string());
  for (const auto& field : head) {
    std::string name(field.name_string());
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    request.headers.emplace(std::move(name), std::string(field.value()));
  }
  return request;
}

// One connection: reads a request, hands it over, sends the answer, again. All members belong to
// the server's thread.
template <typename Stream>
class ConnectionOf final : public Connection {
 public:
  ConnectionOf(std::shared_ptr<Shared> shared, Stream stream)
      : shared_(std::move(shared)), stream_(std::move(stream)), beat_(shared_->io) {
    ++shared_->count;
  }
  ~ConnectionOf() override {
    --shared_->count;
    shared_->open.erase(this);
  }

  void Begin() override {
    if constexpr (std::is_same_v<Stream, Tls>) {
      lowest().expires_after(shared_->options.request);
      stream_.async_handshake(asio::ssl::stream_base::server, [self = Self()](error_code error) {
        if (!error) self->Read();
      });
    } else {
      Read();
    }
  }

  void Abort() override {
    beat_.cancel();
    lowest().close();
    EndStream();
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  std::shared_ptr<ConnectionOf> Self() {
    return std::static_pointer_cast<ConnectionOf>(shared_from_this());
  }
  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }

  void Read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_->options.max_header_bytes));
    // How large a body may be depends on the call: HeadArrived says. The parser's own limit, 1 MiB,
    // would refuse the head of a larger one.
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
    lowest().expires_after(shared_->options.idle);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = Self()](error_code error, std::size_t) { self->HeadArrived(error); });
  }

  void HeadArrived(error_code error) {
    if (error == http::error::header_limit)
      return Refuse(http::status::request_header_fields_too_large);
    if (error && error.category() == http::make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream) {
      return Refuse(http::status::bad_request);
    }
    if (error) return Abort();
    request_ = ToRequest(parser_->get().base());
    version_ = parser_->get().version();
    keep_alive_ = parser_->keep_alive();
    head_only_ = request_.method == "HEAD";
    const auto target = parser_->get().target();
    if (!ParseTarget({target.data(), target.size()}, request_)) {
      return Refuse(http::status::bad_request);
    }
    const std::size_t limit = shared_->handler->BodyLimit(request_);
    parser_->body_limit(limit);
    if (const auto length = parser_->content_length(); length && *length > limit) {
      return Refuse(http::status::payload_too_large);
    }
    lowest().expires_after(shared_->options.request);
    if (!parser_->is_done() && request_.Header("expect") == "100-continue") {
      static const std::string kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(stream_, asio::buffer(kContinue),
                        [self = Self()](error_code failed, std::size_t) {
                          if (failed) return self->Abort();
                          self->ReadBody();
                        });
      return;
    }
    ReadBody();
  }

  void ReadBody() {
    http::async_read(stream_, buffer_, *parser_, [self = Self()](error_code failed, std::size_t) {
      if (failed == http::error::body_limit) {
        return self->Refuse(http::status::payload_too_large);
      }
      if (failed) return self->Abort();
      self->request_.body = std::move(self->parser_->get().body());
      self->lowest().expires_never();  // The answer may take a while.
      self->shared_->handler->Handle(std::move(self->request_), std::make_shared<Reply>(self));
    });
  }

  // Answers what cannot be handed over, and closes: the rest of the request is not read.
  void Refuse(http::status status) {
    keep_alive_ = false;
    HttpResponse response;
    response.status = static_cast<int>(status);
    response.body = fmt::format(R"({{"error":{{"code":"INVALID_ARGUMENT","message":"{}"}}}})",
                                std::string(http::obsolete_reason(status)));
    Send(std::move(response));
  }

  http::response<http::string_body> ToMessage(HttpResponse& response) const {
    http::response<http::string_body> message;
    message.version(version_);
    message.result(static_cast<unsigned>(response.status));
    if (!response.content_type.empty()) {
      message.set(http::field::content_type, response.content_type);
    }
    for (const auto& [name, value] : response.headers) message.insert(name, value);
    return message;
  }

  void Send(HttpResponse response) {
    message_ = ToMessage(response);
    message_.body() = std::move(response.body);
    message_.keep_alive(keep_alive_);
    const bool no_body = message_.result() == http::status::not_modified ||
                         message_.result() == http::status::no_content;
    if (!no_body) message_.content_length(message_.body().size());
    if (no_body || head_only_) message_.body().clear();
    lowest().expires_after(shared_->options.request);
    http::async_write(stream_, message_, [self = Self()](error_code error, std::size_t) {
      if (error) return self->Abort();
      if (!self->keep_alive_) return self->Finish();
      self->Read();
    });
  }

  // Says goodbye, then lets the last reference go.
  void Finish() {
    if constexpr (std::is_same_v<Stream, Tls>) {
      lowest().expires_after(std::chrono::seconds(5));
      stream_.async_shutdown([self = Self()](error_code) { self->Abort(); });
    } else {
      error_code ignored;
      lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
      lowest().expires_after(kLinger);
      Linger();
    }
  }

  // Reads what still comes: closing over unread bytes would take the answer back.
  void Linger() {
    stream_.async_read_some(asio::buffer(scratch_), [self = Self()](error_code error, std::size_t) {
      if (error) return self->Abort();
      self->Linger();
    });
  }

  // --- Streams.

  void Open(
      HttpResponse head,
      const std::function<std::shared_ptr<HttpStreamSource>(std::shared_ptr<HttpStream>)>& make) {
    keep_alive_ = false;  // The response ends with the connection.
    message_ = ToMessage(head);
    message_.keep_alive(false);
    message_.body().clear();
    streaming_ = true;
    source_ = make(std::make_shared<OpenStream>(Self()));
    serializer_.emplace(message_);
    writing_ = true;
    lowest().expires_after(shared_->options.request);
    http::async_write_header(stream_, *serializer_, [self = Self()](error_code error, std::size_t) {
      self->Written(error);
    });
    // Reads only to learn that the client left.
    lowest().socket().async_wait(tcp::socket::wait_read, [self = Self()](error_code error) {
      if (error) return;
      self->Abort();
    });
  }

  void QueueBytes(std::string bytes) {
    if (!streaming_ || closing_ || bytes.empty()) return;
    backlog_ += bytes.size();
    if (backlog_ > kMaxStreamBacklogBytes) return Abort();
    queue_.push_back(std::move(bytes));
    WriteNext();
  }

  void CloseStream() {
    if (!streaming_) return;
    closing_ = true;
    WriteNext();
  }

  void WriteNext() {
    if (writing_ || !streaming_) return;
    if (queue_.empty()) {
      if (!closing_) return;
      EndStream();
      return Finish();
    }
    writing_ = true;
    beat_.cancel();
    lowest().expires_after(shared_->options.request);
    asio::async_write(stream_, asio::buffer(queue_.front()),
                      [self = Self()](error_code error, std::size_t sent) {
                        if (!self->queue_.empty()) {
                          self->backlog_ -= std::min(self->backlog_, sent);
                          self->queue_.pop_front();
                        }
                        self->Written(error);
                      });
  }

  void Written(error_code error) {
    writing_ = false;
    if (error) return Abort();
    if (!streaming_) return;
    lowest().expires_never();
    if (!queue_.empty() || closing_) return WriteNext();
    Beat();
    if (source_ != nullptr) source_->Ready();
  }

  void Beat() {
    beat_.expires_after(shared_->options.stream_beat);
    beat_.async_wait([weak = std::weak_ptr(Self())](error_code error) {
      const auto self = weak.lock();
      if (error || self == nullptr || self->writing_) return;
      self->QueueBytes(kBeat);
    });
  }

  void EndStream() {
    if (!streaming_) return;
    streaming_ = false;
    beat_.cancel();
    if (const auto source = std::exchange(source_, nullptr)) source->Gone();
  }

  class Reply final : public HttpReply {
   public:
    explicit Reply(std::shared_ptr<ConnectionOf> connection) : connection_(std::move(connection)) {}
    ~Reply() override {
      if (connection_ != nullptr) {
        asio::post(connection_->shared_->io, [to = std::move(connection_)] { to->Abort(); });
      }
    }
    void Send(HttpResponse response) override {
      auto& io = connection_->shared_->io;
      asio::post(io, [to = std::move(connection_), response = std::move(response)]() mutable {
        to->Send(std::move(response));
      });
    }
    void Stream(HttpResponse head,
                std::function<std::shared_ptr<HttpStreamSource>(std::shared_ptr<HttpStream>)> make)
        override {
      auto& io = connection_->shared_->io;
      asio::post(io, [to = std::move(connection_), head = std::move(head),
                      make = std::move(make)]() mutable { to->Open(std::move(head), make); });
    }

   private:
    std::shared_ptr<ConnectionOf> connection_;
  };

  class OpenStream final : public HttpStream {
   public:
    explicit OpenStream(const std::shared_ptr<ConnectionOf>& connection)
        : shared_(connection->shared_), connection_(connection) {}
    void Write(std::string bytes) override {
      asio::post(shared_->io, [weak = connection_, bytes = std::move(bytes)]() mutable {
        if (const auto to = weak.lock()) to->QueueBytes(std::move(bytes));
      });
    }
    void Close() override {
      asio::post(shared_->io, [weak = connection_] {
        if (const auto to = weak.lock()) to->CloseStream();
      });
    }

   private:
    const std::shared_ptr<Shared> shared_;
    const std::weak_ptr<ConnectionOf> connection_;
  };

  const std::shared_ptr<Shared> shared_;
  Stream stream_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;
  unsigned version_ = 11;
  bool keep_alive_ = true;
  bool head_only_ = false;
  std::array<char, 4096> scratch_;
  http::response<http::string_body> message_;
  std::optional<http::response_serializer<http::string_body>> serializer_;

  asio::steady_timer beat_;
  std::shared_ptr<HttpStreamSource> source_;
  std::deque<std::string> queue_;
  std::size_t backlog_ = 0;
  bool streaming_ = false, closing_ = false, writing_ = false;
};

class RunningHttpServer final : public HttpServer {
 public:
  explicit RunningHttpServer(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), acceptor_(shared_->io) {}
  // Whoever holds replies has stopped by now; what they posted since goes here.
  ~RunningHttpServer() override {
    Stop();
    shared_->io.restart();
    shared_->io.poll();
  }

  absl::Status Begin() {
    const HttpServerOptions& options = shared_->options;
    if (!options.tls_certificate.empty()) FETTLE_RETURN_IF_ERROR(UseTls());
    const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
    error_code error;
    const auto address = asio::ip::make_address(host, error);
    if (error) {
      return absl::InvalidArgumentError(
          fmt::format("http {}: must be an IP address or localhost", options.host));
    }
    error = Bind(tcp::endpoint(address, static_cast<unsigned short>(options.port)));
    if (error == asio::error::address_in_use && options.any_port_if_taken) {
      error = Bind(tcp::endpoint(address, 0));
    }
    if (error) {
      return absl::UnavailableError(
          fmt::format("serve http on {}:{}: {}", options.host, options.port, error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "http");
      shared_->io.run();
    });
    return absl::OkStatus();
  }

  int port() const override { return port_; }
  std::size_t connections() const override { return shared_->count; }

  void Stop() override {
    if (!thread_.joinable()) return;
    asio::post(shared_->io, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      std::vector<std::shared_ptr<Connection>> open;
      for (const auto& [raw, weak] : shared_->open) {
        if (auto connection = weak.lock()) open.push_back(std::move(connection));
      }
      for (const auto& connection : open) connection->Abort();
    });
    thread_.join();  // Nothing is left to wait for.
  }

 private:
  absl::Status UseTls() {
    const HttpServerOptions& options = shared_->options;
    tls_.emplace(asio::ssl::context::tls_server);
    tls_->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                      asio::ssl::context::no_tlsv1_1);
    error_code error;
    tls_->use_certificate_chain(asio::buffer(options.tls_certificate), error);
    if (error) return absl::InvalidArgumentError("TLS certificate: " + error.message());
    tls_->use_private_key(asio::buffer(options.tls_key), asio::ssl::context::pem, error);
    if (error) return absl::InvalidArgumentError("TLS key: " + error.message());
    return absl::OkStatus();
  }

  error_code Bind(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.close(error);
    acceptor_.open(endpoint.protocol(), error);
    // Lets a restarted server take its port back; another listener still makes the bind fail.
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    return error;
  }

  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error && shared_->count < shared_->options.max_connections) Adopt(std::move(socket));
      if (error == asio::error::no_descriptors) {  // Otherwise this would spin.
        pause_.expires_after(std::chrono::milliseconds(100));
        pause_.async_wait([this](error_code) {
          if (acceptor_.is_open()) Accept();
        });
        return;
      }
      Accept();
    });
  }

  void Adopt(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    std::shared_ptr<Connection> connection;
    if (tls_.has_value()) {
      connection = std::make_shared<ConnectionOf<Tls>>(
          shared_, Tls(beast::tcp_stream(std::move(socket)), *tls_));
    } else {
      connection = std::make_shared<ConnectionOf<beast::tcp_stream>>(
          shared_, beast::tcp_stream(std::move(socket)));
    }
    shared_->open[connection.get()] = connection;
    connection->Begin();
  }

  const std::shared_ptr<Shared> shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_{shared_->io};
  std::optional<asio::ssl::context> tls_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                              HttpHandler& handler) {
  auto shared = std::make_shared<Shared>();
  shared->options = std::move(options);
  shared->handler = &handler;
  auto server = std::make_unique<RunningHttpServer>(std::move(shared));
  FETTLE_RETURN_IF_ERROR(server->Begin());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace fettle
