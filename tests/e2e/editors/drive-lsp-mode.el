;;; The whole way in lsp-mode: look, profile, choose, change, undo.  -*- lexical-binding: t -*-

(require 'lsp-mode)

(setq lsp-session-file (expand-file-name "lsp-session" (getenv "HOME"))
      lsp-server-install-dir (expand-file-name "servers" (getenv "HOME"))
      lsp-enable-suggest-server-download nil
      lsp-enable-snippet nil
      lsp-diagnostics-provider :flymake
      lsp-keep-workspace-alive nil
      lsp-auto-guess-root t)

(defun drive-lenses ()
  "What stands in the buffer as lenses: each line's text with what is drawn behind it."
  (mapcar (lambda (one)
            (save-excursion
              (goto-char (overlay-get one 'lsp-lens-position))
              (cons (line-number-at-pos)
                    (substring-no-properties (or (overlay-get one 'after-string) (overlay-get one 'before-string))))))
          (bound-and-true-p lsp-lens--overlays)))

(defun drive-lens (part)
  "The lens that is drawn and holds PART."
  (cl-find-if (lambda (one) (string-match-p (regexp-quote part) (cdr one))) (drive-lenses)))

(defun drive-hover (part)
  (search-forward part)
  (goto-char (match-beginning 0))
  (lsp:markup-content-value
   (lsp:hover-contents (lsp-request "textDocument/hover" (lsp--text-document-position-params)))))

(defun drive-lsp-mode ()
  (lsp-workspace-folders-add default-directory)
  (unless (lsp-workspaces) (lsp))
  (drive-wait "the server" 30
              (lambda () (cl-some (lambda (one) (eq 'initialized (lsp--workspace-status one))) (lsp-workspaces))))
  (let ((before (drive-text)) (path (buffer-file-name)))
    (let ((lens (drive-wait "an invitation in the buffer" 30 (lambda () (drive-lens "Profile this training script")))))
      (drive-saw 'invitation `((line . ,(1- (car lens))) (title . ,(cdr lens)))))
    (skyline-profile)
    (drive-saw 'running (cdr (drive-wait "the run in the buffer" 100 (lambda () (drive-lens "Profiling,")))))
    (drive-saw 'headline (cdr (drive-wait "a headline" 200
                                          (lambda () (and (not (drive-lens "Profiling,"))
                                                          (not (drive-lens "measuring"))
                                                          (drive-lens "per iteration"))))))
    (drive-wait "a finding" 20
                (lambda ()
                  (cl-some (lambda (one)
                             (when (equal (lsp:diagnostic-code? one) "SKY301")
                               (drive-saw 'finding
                                          `((line . ,(lsp:position-line (lsp:range-start (lsp:diagnostic-range one))))
                                            (message . ,(lsp:diagnostic-message one))))
                               t))
                           (gethash path (lsp-diagnostics t)))))
    (drive-line "loss.backward()")
    (drive-saw 'hover (drive-hover "loss.backward()"))
    (goto-char (point-min))
    (drive-saw 'curve (drive-hover "batch_size"))
    (drive-line "for x, y in loader")
    (drive-saw 'at-loop (vconcat (mapcar #'lsp:code-action-title (lsp-code-actions-at-point))))
    (drive-line "loader = DataLoader")
    (drive-saw 'at-size (vconcat (mapcar #'lsp:code-action-title (lsp-code-actions-at-point))))
    (drive-line "optimizer = torch.optim.Adam")
    (undo-boundary)
    (lsp-execute-code-action
     (or (cl-find-if (lambda (one) (and (equal "quickfix" (lsp:code-action-kind? one))
                                        (string-match-p "fused" (lsp:code-action-title one))))
                     (lsp-code-actions-at-point))
         (error "No quick fix")))
    (drive-wait "the change" 20 (lambda () (not (equal (drive-text) before))))
    (drive-saw 'changed (drive-text))
    (drive-undo before)))

(drive #'drive-lsp-mode)
