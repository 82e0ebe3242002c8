//! `chat/completions`: replies of a language model.

use super::{Ask, OpenAiCompatible, Reply};
use crate::models::{Call, LanguageModel, ModelError, ModelErrorKind, Prompt};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt;

/// Which model of a server replies, and how it is asked. Made by [`ChatOptions::new`]; every field may be changed.
#[derive(Clone, PartialEq)]
pub struct ChatOptions {
    /// The model's name, as the server knows it. A prompt may name another one.
    pub model: String,
    /// The field that limits the reply: `max_tokens`, or `max_completion_tokens` for newer models of OpenAI.
    pub max_tokens_field: String,
    /// Whether a prompt that wants JSON is sent with `response_format`; without, its own words have to ask for it.
    pub json_mode: bool,
    /// Further fields of every request, as the server knows them: `temperature`, `seed`, `reasoning_effort`. They replace fields of the same
    /// name. `Debug` shows their names alone.
    pub extra: Map<String, Value>,
}

impl ChatOptions {
    /// The defaults for a model.
    pub fn new(model: impl Into<String>) -> ChatOptions {
        ChatOptions { model: model.into(), max_tokens_field: "max_tokens".into(), json_mode: true, extra: Map::new() }
    }
}

impl fmt::Debug for ChatOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatOptions")
            .field("model", &self.model)
            .field("max_tokens_field", &self.max_tokens_field)
            .field("json_mode", &self.json_mode)
            .field("extra", &self.extra.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// A language model of a server. Replies are not streamed.
#[derive(Debug, Clone)]
pub struct HttpLanguageModel {
    server: OpenAiCompatible,
    options: ChatOptions,
}

impl HttpLanguageModel {
    /// A model of `server`. Nothing is sent yet.
    pub fn new(server: &OpenAiCompatible, options: ChatOptions) -> HttpLanguageModel {
        HttpLanguageModel { server: server.clone(), options }
    }

    fn body(&self, prompt: &Prompt) -> Value {
        let message = |role: &str, content: &str| json!({"role": role, "content": content});
        let mut messages = Vec::new();
        if !prompt.system.is_empty() {
            messages.push(message("system", &prompt.system));
        }
        messages.push(message("user", &prompt.user));
        let mut body = Map::new();
        body.insert("model".into(), json!(prompt.model.as_deref().unwrap_or(&self.options.model)));
        body.insert("messages".into(), json!(messages));
        body.insert("stream".into(), json!(false));
        if let Some(max) = prompt.max_tokens {
            body.insert(self.options.max_tokens_field.clone(), json!(max));
        }
        if prompt.json && self.options.json_mode {
            body.insert("response_format".into(), json!({"type": "json_object"}));
        }
        body.extend(self.options.extra.clone());
        Value::Object(body)
    }
}

impl LanguageModel for HttpLanguageModel {
    fn name(&self) -> &str {
        &self.options.model
    }

    fn complete(&self, call: &Call<'_>, prompt: &Prompt) -> Result<String, ModelError> {
        let ask = Ask { path: "chat/completions", body: &self.body(prompt), text_bytes: prompt.system.len() + prompt.user.len() };
        let reply: ChatReply = self.server.post(call, &ask)?;
        let Some(choice) = reply.choices.into_iter().next() else {
            return Err(ModelError::malformed(format!("chat/completions of {}: no choice in the reply", self.server.host())));
        };
        match choice.message {
            ChatMessage { content: Some(content), .. } => Ok(content),
            ChatMessage { refusal: Some(refusal), .. } if !refusal.is_empty() => {
                let message = format!("chat/completions of {}: the model declines to reply", self.server.host());
                Err(ModelError::new(ModelErrorKind::Refused, message))
            }
            ChatMessage { .. } => Ok(String::new()),
        }
    }
}

#[derive(Deserialize)]
struct ChatReply {
    choices: Vec<ChatChoice>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct ChatChoice {
    message: ChatMessage,
}

#[derive(Deserialize)]
struct ChatMessage {
    content: Option<String>,
    refusal: Option<String>,
}

impl Reply for ChatReply {
    fn usage(&self) -> &Value {
        &self.usage
    }
}
