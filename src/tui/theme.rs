//! Colours by meaning. Owns the roles (Pi's own names, screens.md §1), the two themes of the
//! program, reading a theme in Pi's format, colour depth and icons. Draws nothing.
//!
//! A role is a ready [`Style`]: a text role sets the foreground, a ground role the background;
//! `theme.tool_error_bg.patch(theme.error)` combines them. Where there are fewer colours than the
//! theme wants, they are converted once here, never at drawing time.

mod depth;
mod icons;
mod parse;

use ratatui::style::{Modifier, Style};

pub use depth::Depth;
pub use icons::{Icons, SPINNER_FRAMES_PER_SECOND};
pub use parse::ThemeError;

/// Light or dark ground of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ground {
    /// Light text on a dark ground.
    #[default]
    Dark,
    /// Dark text on a light ground.
    Light,
}

macro_rules! roles {
    ($($kind:ident { $($field:ident = $name:literal, $doc:literal;)* })*) => {
        /// Every role as a style.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Theme {
            /// Ground it is made for.
            pub ground: Ground,
            /// Colours it was converted to.
            pub depth: Depth,
            /// Icons.
            pub icons: Icons,
            $($(#[doc = $doc] pub $field: Style,)*)*
        }

        impl Theme {
            fn from_colors(colors: &parse::Colors, ground: Ground, depth: Depth) -> Self {
                Self {
                    ground,
                    depth,
                    icons: Icons::unicode(),
                    $($($field: roles!(@style $kind, colors.get($name), depth),)*)*
                }
            }

            /// Pi's names of all roles.
            pub const ROLES: &'static [&'static str] = &[$($($name,)*)*];
        }
    };
    (@style text, $color:expr, $depth:expr) => { depth::foreground($color, $depth) };
    (@style ground, $color:expr, $depth:expr) => { depth::background($color, $depth) };
}

roles! {
    text {
        accent = "accent", "What runs, ids, the cursor.";
        border = "border", "Border of the focused pane.";
        border_accent = "borderAccent", "Border that asks for attention.";
        border_muted = "borderMuted", "Every other border.";
        success = "success", "What ended well.";
        error = "error", "What failed.";
        warning = "warning", "What asks, was stopped, is armed.";
        muted = "muted", "Metadata.";
        dim = "dim", "What is absent, queued or a hint.";
        text = "text", "Ordinary text.";
        thinking_text = "thinkingText", "Reasoning of a model.";
        user_message_text = "userMessageText", "Prompts.";
        custom_message_text = "customMessageText", "Messages of extensions, completions.";
        custom_message_label = "customMessageLabel", "Their labels.";
        tool_title = "toolTitle", "Name and arguments of a tool.";
        tool_output = "toolOutput", "Output of a tool.";
        md_heading = "mdHeading", "Markdown heading.";
        md_link = "mdLink", "Markdown link text.";
        md_link_url = "mdLinkUrl", "Markdown link target.";
        md_code = "mdCode", "Markdown inline code.";
        md_code_block = "mdCodeBlock", "Markdown code block.";
        md_code_block_border = "mdCodeBlockBorder", "Edge of a code block.";
        md_quote = "mdQuote", "Markdown quote.";
        md_quote_border = "mdQuoteBorder", "Edge of a quote.";
        md_hr = "mdHr", "Markdown rule.";
        md_list_bullet = "mdListBullet", "Markdown list mark.";
        tool_diff_added = "toolDiffAdded", "Added line.";
        tool_diff_removed = "toolDiffRemoved", "Removed line.";
        tool_diff_context = "toolDiffContext", "Unchanged line.";
        syntax_comment = "syntaxComment", "Comment.";
        syntax_keyword = "syntaxKeyword", "Keyword.";
        syntax_function = "syntaxFunction", "Function.";
        syntax_variable = "syntaxVariable", "Variable.";
        syntax_string = "syntaxString", "String.";
        syntax_number = "syntaxNumber", "Number.";
        syntax_type = "syntaxType", "Type.";
        syntax_operator = "syntaxOperator", "Operator.";
        syntax_punctuation = "syntaxPunctuation", "Punctuation.";
        thinking_off = "thinkingOff", "Thinking level off.";
        thinking_minimal = "thinkingMinimal", "Thinking level minimal.";
        thinking_low = "thinkingLow", "Thinking level low.";
        thinking_medium = "thinkingMedium", "Thinking level medium.";
        thinking_high = "thinkingHigh", "Thinking level high.";
        thinking_xhigh = "thinkingXhigh", "Thinking level xhigh.";
        thinking_max = "thinkingMax", "Thinking level max.";
        bash_mode = "bashMode", "A shell command being typed.";
    }
    ground {
        selected_bg = "selectedBg", "The selected row.";
        user_message_bg = "userMessageBg", "Under prompts.";
        custom_message_bg = "customMessageBg", "Under completion and question cards.";
        tool_pending_bg = "toolPendingBg", "Under a running tool.";
        tool_success_bg = "toolSuccessBg", "Under a tool that ended well.";
        tool_error_bg = "toolErrorBg", "Under a tool that failed.";
    }
}

const DARK: &str = include_str!("../../assets/themes/dark.json");
const LIGHT: &str = include_str!("../../assets/themes/light.json");

impl Theme {
    /// The program's own theme for a ground.
    #[must_use]
    pub fn load(ground: Ground, depth: Depth) -> Self {
        let source = match ground {
            Ground::Dark => DARK,
            Ground::Light => LIGHT,
        };
        // The embedded files are valid (a test proves it); without colours the screen still works.
        let colors = parse::colors(source).unwrap_or_default();
        Self::from_colors(&colors, ground, depth).finish()
    }

    /// A theme file in Pi's format. Roles the file does not have come from our own theme.
    ///
    /// # Errors
    /// The file is not JSON or a colour in it cannot be read.
    pub fn parse(source: &str, ground: Ground, depth: Depth) -> Result<Self, ThemeError> {
        let base = match ground {
            Ground::Dark => DARK,
            Ground::Light => LIGHT,
        };
        let mut colors = parse::colors(base).unwrap_or_default();
        colors.extend(parse::colors(source)?);
        Ok(Self::from_colors(&colors, ground, depth).finish())
    }

    /// The same theme with other icons.
    #[must_use]
    pub fn with_icons(mut self, icons: Icons) -> Self {
        self.icons = icons;
        self
    }

    /// Without colours the differences that matter become attributes.
    fn finish(mut self) -> Self {
        if self.depth == Depth::None {
            self.selected_bg = Style::new().add_modifier(Modifier::REVERSED);
            self.dim = Style::new().add_modifier(Modifier::DIM);
            self.border_muted = Style::new().add_modifier(Modifier::DIM);
            self.md_heading = Style::new().add_modifier(Modifier::UNDERLINED);
        }
        self.md_heading = self.md_heading.add_modifier(Modifier::BOLD);
        self.md_link = self.md_link.add_modifier(Modifier::UNDERLINED);
        self
    }

    /// A style of program output, converted to the colours there are.
    #[must_use]
    pub fn output_style(&self, style: Style) -> Style {
        depth::convert(style, self.depth)
    }

    /// The role for a thinking level by Pi's word for it.
    #[must_use]
    pub fn thinking(&self, level: &str) -> Style {
        match level {
            "minimal" => self.thinking_minimal,
            "low" => self.thinking_low,
            "medium" => self.thinking_medium,
            "high" => self.thinking_high,
            "xhigh" => self.thinking_xhigh,
            "max" => self.thinking_max,
            _ => self.thinking_off,
        }
    }

    /// The role for a context fill in percent (screens.md §1: warning from 70, error from 85).
    #[must_use]
    pub fn context(&self, percent: u64) -> Style {
        match percent {
            0..70 => self.muted,
            70..85 => self.warning,
            _ => self.error,
        }
    }
}
