//! S3: the completion of an upload in parts that fails where the name is taken.
//!
//! S3 takes `If-None-Match: *` there, as it does for a plain PUT, but the client library sends it for plain PUTs and for
//! copies only. A copy would cost the store a second time the bytes and ends at 5 GiB. So the header is added on the way
//! out, to the one request that completes an upload (`POST object?uploadId=…`). It is not among the headers that are
//! signed, and need not be: signatures cover the host and `x-amz-*`.

use async_trait::async_trait;
use http::HeaderValue;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

/// Makes clients whose completions of uploads are conditional.
#[derive(Debug)]
pub(crate) struct CompletesOnce;

impl HttpConnector for CompletesOnce {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Conditional(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct Conditional(HttpClient);

#[async_trait]
impl HttpService for Conditional {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let completes = request.method().as_str() == "POST"
            && request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("uploadId=")));
        if completes {
            request.headers_mut().insert("if-none-match", HeaderValue::from_static("*"));
        }
        self.0.execute(request).await
    }
}
